// Where the boxes of a graph are: one column for each level, rows near those before them. Siblings
// with the same steps before them are one box from a hundred on. It depends on the definition only.

import type { Graph } from './steps.ts';

export const ROW = 40;
export const BOX = 30;
const GAP = 56;
/** Siblings from which on they are one box, and how many of them a click shows. */
export const GROUP = 100;
const NAME_MAX = 28;

export type Box = { steps: number[]; group?: string; level: number; row: number; x: number; y: number; width: number; parents: number[]; children: number[] };
export type Layout = { boxes: Box[]; levels: number[][]; at: Map<number, number>; width: number; height: number };

export const shortName = (name: string): string => (name.length > NAME_MAX ? `${name.slice(0, NAME_MAX - 1)}…` : name);

/** `opened` has how many members of a group are shown by themselves. */
export function layout(graph: Graph, shown: Set<number> | undefined, opened: Map<string, number>): Layout {
  const groups = new Map<string, number[]>();
  graph.names.forEach((_, i) => {
    if (shown && !shown.has(i)) return;
    const key = `${graph.levels[i]}:${(graph.dependencies[i] ?? []).join(',')}`;
    const found = groups.get(key);
    if (found) found.push(i);
    else groups.set(key, [i]);
  });
  const boxes: Box[] = [];
  const levels: number[][] = [];
  const at = new Map<number, number>();
  const add = (steps: number[], group?: string) => {
    const level = graph.levels[steps[0] as number] ?? 0;
    for (const step of steps) at.set(step, boxes.length);
    (levels[level] ??= []).push(boxes.length);
    boxes.push({ steps, group, level, row: 0, x: 0, y: 0, width: 0, parents: [], children: [] });
  };
  for (const [key, members] of groups) {
    const single = members.length < GROUP ? members.length : (opened.get(key) ?? 0);
    for (const step of members.slice(0, single)) add([step]);
    const rest = members.slice(single);
    if (rest.length) add(rest, key);
  }
  const columns = levels.filter(Boolean);
  for (const box of boxes) {
    const parents = new Set<number>();
    for (const parent of graph.dependencies[box.steps[0] as number] ?? []) {
      const it = at.get(parent);
      if (it !== undefined) parents.add(it);
    }
    box.parents = [...parents];
  }
  boxes.forEach((box, i) => box.parents.forEach((it) => boxes[it]?.children.push(i)));
  // Each column in the order of the rows before it.
  let x = 12;
  const rows = Math.max(0, ...columns.map((it) => it.length));
  for (const column of columns) {
    const rank = (i: number) => {
      const before = boxes[i]?.parents ?? [];
      return before.length ? before.reduce((sum, it) => sum + (boxes[it]?.y ?? 0), 0) / before.length : 0;
    };
    const ranks = new Map(column.map((i) => [i, rank(i)]));
    column.sort((a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0) || a - b);
    const longest = Math.max(...column.map((i) => shortName(graph.names[boxes[i]?.steps[0] ?? 0] ?? '').length + (boxes[i]?.group ? 8 : 0)));
    const width = 104 + longest * 6.9;
    // A short column stands in the middle as long as the reader sees all of it.
    const top = rows <= GAP ? (rows - column.length) / 2 : 0;
    column.forEach((i, row) => Object.assign(boxes[i] as Box, { row, x, y: 12 + (top + row) * ROW, width }));
    x += width + GAP;
  }
  return { boxes, levels: columns, at, width: Math.max(0, x - GAP + 12), height: 16 + rows * ROW };
}

/** What is inside a window of the picture, which may be a small part of it. */
export function visible(it: Layout, left: number, top: number, width: number, height: number): number[] {
  const found: number[] = [];
  for (const column of it.levels) {
    const first = it.boxes[column[0] as number] as Box;
    if (first.x + first.width < left || first.x > left + width) continue;
    const from = Math.max(0, Math.floor((top - first.y) / ROW));
    const to = Math.ceil((top + height - first.y) / ROW);
    if (to > 0) found.push(...column.slice(from, to));
  }
  return found;
}

/** Edges of the given boxes, at most so many, without those that lead to boxes of a crowd. */
export function edgesOf(it: Layout, shown: number[], max: number): [number, number][] {
  const found = new Map<string, [number, number]>();
  for (const i of shown) {
    const box = it.boxes[i] as Box;
    for (const from of box.parents.slice(0, 40)) found.set(`${from} ${i}`, [from, i]);
    for (const to of box.children.slice(0, 40)) found.set(`${i} ${to}`, [i, to]);
    if (found.size > max) break;
  }
  return [...found.values()].slice(0, max);
}
