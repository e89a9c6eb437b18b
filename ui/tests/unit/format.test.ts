import assert from 'node:assert/strict';
import { test } from 'node:test';
import { count, dayAndTime, duration, offsetName, relative, shortTime } from '../../src/time/format.ts';

test('durations have at most two units', () => {
  for (const [ms, expected] of [
    [0, '0 ms'], [38.4, '38 ms'], [999, '999 ms'], [4100, '4.1 s'], [59_940, '60 s'], [59_960, '1 m 00 s'],
    [64_000, '1 m 04 s'], [7_800_000, '2 h 10 m'], [273_600_000, '3 d 4 h'], [-1, '–'], [NaN, '–'], [undefined, '–'],
  ] as const) {
    assert.equal(duration(ms as number | undefined), expected, String(ms));
  }
});

test('times show as much as their distance needs', () => {
  const now = Date.parse('2026-03-16T10:20:14Z');
  for (const [at, zone, expected] of [
    ['2026-03-16T10:20:00Z', 'Europe/Berlin', '11:20:00'],
    ['2026-03-15T23:30:00Z', 'Europe/Berlin', '00:30:00'],
    ['2026-03-15T22:30:00Z', 'Europe/Berlin', 'Sun 23:30'],
    ['2026-05-16T10:20:00Z', 'UTC', '16 May 10:20'],
    ['2024-03-16T10:20:00Z', 'UTC', '16 Mar 2024'],
  ] as const) {
    assert.equal(shortTime(new Date(at), now, zone), expected, at);
  }
});

test('both passes of a repeated hour have their own offset', () => {
  assert.equal(dayAndTime(new Date('2026-10-25T00:30:00Z'), 'Europe/Berlin'), 'Sun 25 Oct 02:30');
  assert.equal(offsetName(new Date('2026-10-25T00:30:00Z'), 'Europe/Berlin'), 'UTC+2');
  assert.equal(offsetName(new Date('2026-10-25T01:30:00Z'), 'Europe/Berlin'), 'UTC+1');
});

test('numbers and distances', () => {
  assert.equal(count(12408), '12\u202f408');
  assert.equal(count(undefined), '–');
  assert.equal(relative(1000 * 3600 * 14 + 5000, 5000), 'in 14 h');
  assert.equal(relative(0, 1000 * 190), '3 m ago');
});
