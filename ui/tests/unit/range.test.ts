import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clicked, rangeText, readRange } from '../../src/log/range.ts';
import { instantOf } from '../../src/time/range.ts';

test('lines of an address are read and written', () => {
  for (const [hash, range] of [
    ['#L7', { first: 7, last: 7 }], ['#L7-9', { first: 7, last: 9 }], ['#L9-7', { first: 7, last: 9 }],
    ['#L0', undefined], ['#L', undefined], ['#L7-', undefined], ['#Lx', undefined], ['', undefined],
  ] as const) assert.deepEqual(readRange(hash), range, hash);
  assert.equal(rangeText({ first: 7, last: 7 }), 'L7');
  assert.equal(rangeText({ first: 7, last: 9 }), 'L7-9');
});

test('a click with the shift key takes all lines from the one before', () => {
  const before = { first: 5, last: 8 };
  assert.deepEqual(clicked(12, before, true), { first: 5, last: 12 });
  assert.deepEqual(clicked(2, before, true), { first: 2, last: 8 });
  assert.deepEqual(clicked(2, before, false), { first: 2, last: 2 });
  assert.deepEqual(clicked(2, undefined, true), { first: 2, last: 2 });
});

test('ranges of time are relative or instants', () => {
  const now = Date.parse('2026-03-29T10:20:30Z');
  assert.equal(instantOf('-1h', now), '2026-03-29T09:20:00.000Z');
  assert.equal(instantOf('2026-03-29T01:30:00Z', now), '2026-03-29T01:30:00.000Z');
  for (const text of ['', 'yesterday', '-1d', '2026', '2026-13-01T00:00:00Z']) assert.equal(instantOf(text, now), undefined, text);
});
