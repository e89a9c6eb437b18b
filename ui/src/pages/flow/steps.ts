// The steps of a DAG run as columns: states, times and neighbours by the position of each step.

import type { Schema } from '../../api/client.ts';
import { isBad } from '../../design/state.ts';

export type Columns = Schema['DagRunColumns'];
export type Graph = Schema['GraphColumns'];

const STATUSES: Record<string, string> = {
  P: 'PENDING', Q: 'QUEUED', R: 'RUNNING', H: 'HELD', C: 'COMPLETED', F: 'FAILED', X: 'CANCELLED', T: 'TIMEOUT', S: 'SKIPPED', M: 'MISSED',
};

/** The status that a letter of the API stands for. */
export const statusOf = (letter: string | undefined): string | undefined => STATUSES[letter ?? ''];

export class Steps {
  readonly names: string[];
  readonly children: number[][];
  readonly count: number;
  readonly since: number;
  readonly items: Map<number, Schema['TaskItems']>;
  readonly attempts: Map<number, number>;
  readonly adopted: Set<number>;
  #places = new Map<string, number>();

  constructor(readonly columns: Columns, readonly graph: Graph) {
    this.names = graph.names;
    this.count = graph.names.length;
    this.since = Date.parse(columns.since);
    this.children = graph.names.map(() => []);
    graph.dependencies.forEach((parents, i) => parents.forEach((it) => this.children[it]?.push(i)));
    graph.names.forEach((name, i) => this.#places.set(name, i));
    this.items = new Map(columns.items.map((it) => [it.task, it]));
    this.attempts = new Map(columns.attempts.map((it) => [it.task, it.count]));
    this.adopted = new Set(columns.adopted);
  }

  find = (name: string | null | undefined): number | undefined => this.#places.get(name ?? '');
  name = (step: number): string => this.names[step] ?? '';
  status: (step: number) => string = (step) => statusOf(this.columns.statuses[step]) ?? 'PENDING';
  parents = (step: number): number[] => this.graph.dependencies[step] ?? [];

  /** From when to when it could work, in milliseconds; what has not ended lasts until `now`. */
  span(step: number, now: number): { from: number; began: number | undefined; to: number } | undefined {
    const { released_ms: released, started_ms: started, ended_ms: ended } = this.columns;
    const from = released[step];
    if (from === null || from === undefined) return undefined;
    const began = started[step];
    const to = ended[step] ?? Math.max(from, now - this.since);
    return { from: this.since + from, began: began === null || began === undefined ? undefined : this.since + Math.max(from, began), to: this.since + to };
  }

  /** How long it worked, or has worked so far. */
  took(step: number, now: number): number | undefined {
    const span = this.span(step, now);
    if (!span || this.status(step) === 'SKIPPED' || this.status(step) === 'QUEUED') return undefined;
    return span.to - (span.began ?? span.from);
  }

  /** A step and everything before it, or after it. */
  reach(step: number, next: (step: number) => number[]): Set<number> {
    const found = new Set([step]);
    for (const it of found) for (const other of next(it)) found.add(other);
    return found;
  }
}

export type Only = 'failed' | 'running' | 'waiting' | 'critical' | 'upstream' | 'downstream';

/** Which steps are shown: all when undefined. */
export function shownSteps(steps: Steps, only: string | null, words: string, chosen: number | undefined, critical: Set<number>): Set<number> | undefined {
  const wanted = words.trim().toLowerCase();
  let test: ((step: number) => boolean) | undefined;
  if (only === 'failed') test = (it) => isBad(steps.status(it)) || steps.status(it) === 'CANCELLED';
  else if (only === 'running') test = (it) => ['RUNNING', 'QUEUED', 'HELD'].includes(steps.status(it));
  else if (only === 'waiting') test = (it) => steps.status(it) === 'PENDING';
  else if (only === 'critical') test = (it) => critical.has(it);
  else if (chosen !== undefined && (only === 'upstream' || only === 'downstream')) {
    const found = steps.reach(chosen, only === 'upstream' ? steps.parents : (it) => steps.children[it] ?? []);
    test = (it) => found.has(it);
  }
  if (!test && !wanted) return undefined;
  const shown = new Set<number>();
  for (let i = 0; i < steps.count; i++) {
    if ((!test || test(i)) && (!wanted || steps.name(i).toLowerCase().includes(wanted))) shown.add(i);
  }
  return shown;
}
