// Layout, time scale and filters of workflows.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { edgesOf, layout, visible } from '../../src/pages/flow/layout.ts';
import { shownSteps, Steps, type Columns, type Graph } from '../../src/pages/flow/steps.ts';
import { timeScale } from '../../src/pages/flow/timescale.ts';

/** A graph of steps with their parents, by position. */
function graphOf(parents: number[][]): Graph {
  const levels: number[] = [];
  for (const before of parents) levels.push(before.length ? 1 + Math.max(...before.map((it) => levels[it] ?? 0)) : 0);
  return { names: parents.map((_, i) => `s${i}`), kinds: parents.map(() => 'NOOP'), levels, dependencies: parents };
}

function stepsOf(parents: number[][], statuses: string): Steps {
  const none = parents.map(() => null);
  const columns = { dag_run_id: '', dag_version: 1, statuses, since: '2026-03-01T00:00:00Z', released_ms: none, started_ms: none, ended_ms: none, attempts: [], items: [], adopted: [] };
  return new Steps(columns as unknown as Columns, graphOf(parents));
}

test('each level is a column to the right of those before it', () => {
  const it = layout(graphOf([[], [], [0, 1], [2], [0]]), undefined, new Map());
  assert.deepEqual(it.levels.map((column) => column.length), [2, 2, 1]);
  const box = (step: number) => it.boxes[it.at.get(step) as number];
  assert.ok((box(2)?.x ?? 0) > (box(0)?.x ?? 0) + (box(0)?.width ?? 0));
  assert.ok((box(3)?.x ?? 0) > (box(2)?.x ?? 0));
  // Step 4 waits for the upper step only, step 2 for both: it stands above.
  assert.ok((box(4)?.y ?? 0) < (box(2)?.y ?? 0));
});

test('siblings are one box from a hundred on, and open a hundred at a time', () => {
  const parents = [[], ...Array.from({ length: 250 }, () => [0]), Array.from({ length: 250 }, (_, i) => i + 1)];
  const closed = layout(graphOf(parents), undefined, new Map());
  assert.equal(closed.boxes.length, 3);
  const group = closed.boxes.find((it) => it.group);
  assert.equal(group?.steps.length, 250);
  const opened = layout(graphOf(parents), undefined, new Map([[group?.group ?? '', 100]]));
  assert.equal(opened.boxes.length, 103);
  assert.equal(opened.boxes.find((it) => it.group)?.steps.length, 150);
  // The join is drawn once from the group, whatever number of steps it has.
  assert.deepEqual(edgesOf(closed, [0, 1, 2], 100).length, 2);
});

test('ten thousand steps of a chain draw what is in view', () => {
  const chain = layout(graphOf(Array.from({ length: 10_000 }, (_, i) => (i ? [i - 1] : []))), undefined, new Map());
  assert.equal(chain.boxes.length, 10_000);
  const middle = visible(chain, chain.width / 2, 0, 1400, 600);
  assert.ok(middle.length > 3 && middle.length < 30, `${middle.length}`);
  assert.ok(edgesOf(chain, middle, 1000).length <= middle.length + 1);
});

test('long pauses are made short, and work keeps its length', () => {
  const hour = 3_600_000;
  const spans = [{ from: 0, to: 1000 }, { from: 500, to: 2000 }, { from: hour, to: hour + 2000 }];
  const short = timeScale(spans, true);
  assert.equal(short.at(0), 0);
  assert.ok(Math.abs(short.at(2000) - 0.485) < 0.001);
  assert.ok(Math.abs(short.at(hour) - 0.515) < 0.001);
  assert.equal(short.at(hour + 2000), 1);
  assert.equal(short.idle.length, 1);
  const long = timeScale(spans, false);
  assert.ok(long.at(2000) < 0.001);
  assert.deepEqual(long.idle, []);
  assert.ok(timeScale([], true).at(5) >= 0);
});

test('filters keep states, words and neighbours', () => {
  const steps = stepsOf([[], [0], [1], [0], []], 'CFSRP');
  const kept = (only: string | null, words = '', chosen?: number) => [...(shownSteps(steps, only, words, chosen, new Set([0, 1])) ?? ['all'])];
  assert.deepEqual(kept(null), ['all']);
  assert.deepEqual(kept('failed'), [1]);
  assert.deepEqual(kept('running'), [3]);
  assert.deepEqual(kept('critical'), [0, 1]);
  assert.deepEqual(kept('upstream', '', 2), [0, 1, 2]);
  assert.deepEqual(kept('downstream', '', 0), [0, 1, 2, 3]);
  assert.deepEqual(kept(null, 'S4'), [4]);
  assert.deepEqual(kept('failed', 's4'), []);
});
