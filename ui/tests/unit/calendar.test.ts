import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hourRows, monday, moved, oddLength, words, worst } from '../../src/pages/job/calendar/days.ts';
import { fieldsOf, readFields } from '../../src/pages/job/parameters.ts';

const day = (more: object) => ({
  date: '2026-03-29', starts_at: '2026-03-28T23:00:00Z', minutes: 1380, ended: {}, active: 0, planned: 0, skipped_by_clock: 0, ...more,
});

test('a day shows its worst outcome', () => {
  assert.equal(worst(day({ ended: { COMPLETED: 90, SKIPPED: 2, MISSED: 1 } })), 'MISSED');
  assert.equal(worst(day({ ended: { COMPLETED: 90 }, active: 1 })), 'RUNNING');
  assert.equal(worst(day({ ended: { COMPLETED: 90 }, planned: 4 })), 'COMPLETED');
  assert.equal(worst(day({ planned: 4 })), 'PLANNED');
  assert.equal(worst(day({})), 'NOTHING');
  assert.equal(words(day({ ended: { COMPLETED: 90, MISSED: 1 }, skipped_by_clock: 4 })), '1 missed, 90 completed, 4 that do not exist');
});

test('weeks begin on Monday', () => {
  assert.equal(monday('2026-03-29'), '2026-03-23');
  assert.equal(monday('2026-03-23'), '2026-03-23');
  assert.equal(moved('2026-02-28', 1), '2026-03-01');
});

const tick = (at: string) => ({ scheduled_time: at, local: '', occurrences: 1, status: 'COMPLETED' });

test('a day of 23 hours has a row for the hour that does not exist', () => {
  const rows = hourRows('2026-03-28T23:00:00Z', 1380, 'Europe/Berlin', [tick('2026-03-29T01:30:00Z')]);
  assert.deepEqual(rows.slice(0, 4).map((it) => [it.label, it.isMissing, it.ticks.length]), [
    ['00', false, 0], ['01', false, 0], ['02', true, 0], ['03', false, 1],
  ]);
  assert.equal(rows.length, 24);
  assert.equal(oddLength(1380), '23 hours');
});

test('a day of 25 hours has two rows for the hour that comes twice', () => {
  const rows = hourRows('2026-10-24T22:00:00Z', 1500, 'Europe/Berlin', [tick('2026-10-25T00:30:00Z'), tick('2026-10-25T01:30:00Z')]);
  assert.deepEqual(rows.slice(1, 5).map((it) => [it.label, it.note, it.ticks.length]), [
    ['01', '', 0], ['02', 'first pass, UTC+2', 1], ['02', 'second pass, UTC+1', 1], ['03', '', 0],
  ]);
  assert.equal(rows.length, 25);
  assert.equal(oddLength(1500), '25 hours');
});

test('parameters keep their types', () => {
  const values = { region: 'eu', limit: 10, dry: true, ids: [1, 2] };
  const fields = fieldsOf(values);
  assert.deepEqual(fields.map((it) => it.type), ['text', 'number', 'boolean', 'json']);
  assert.deepEqual(readFields(fields), values);
  fields[1]!.text = 'ten';
  assert.throws(() => readFields(fields), /limit must be a number/);
});

test('the heat map has a cell for each hour that the clocks show', async () => {
  const { heatRows, heatStep } = await import('../../src/pages/lab/heat.ts');
  const hour = (local: string, starts: number) => ({ at: `${local}:00Z`, local, starts, busiest: starts });
  const rows = heatRows([hour('2026-10-25T01:00', 1), hour('2026-10-25T02:00', 2), hour('2026-10-25T02:00', 3), hour('2026-10-26T00:00', 0)]);
  assert.deepEqual(rows.map((it) => it.date), ['2026-10-25', '2026-10-26']);
  assert.deepEqual([rows[0]?.cells[0], rows[0]?.cells[2]?.starts, rows[0]?.cells[2]?.isTwice], [undefined, 5, true]);
  assert.deepEqual([heatStep(0, 100), heatStep(1, 400), heatStep(100, 400), heatStep(400, 400)], [0, 1, 3, 6]);
});
