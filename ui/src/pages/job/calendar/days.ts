// How a day of the calendar looks: its worst outcome, its words, and the rows of its hours.

import type { Schema } from '../../../api/client.ts';
import { stateOf, type State } from '../../../design/state.ts';
import { clockTime, offsetName } from '../../../time/format.ts';

export type Day = Schema['CalendarDay'];
export type Tick = Schema['CalendarTick'];

/** Worst first. */
const ORDER = ['FAILED', 'TIMEOUT', 'MISSED', 'CANCELLED', 'SKIPPED', 'COMPLETED'];

export function worst(day: Day): State | 'PLANNED' | 'NOTHING' {
  const found = ORDER.find((it) => day.ended[it]);
  if (found && found !== 'COMPLETED') return stateOf(found);
  if (day.active) return 'RUNNING';
  if (found) return 'COMPLETED';
  return day.planned ? 'PLANNED' : 'NOTHING';
}

/** The share of a day's times that completed, of those that ended. */
export function completedShare(day: Day): number {
  const all = Object.values(day.ended).reduce((a, b) => a + b, 0);
  return all ? (day.ended.COMPLETED ?? 0) / all : 0;
}

export function words(day: Day): string {
  const ended = ORDER.filter((it) => day.ended[it]).map((it) => `${day.ended[it]} ${it.toLowerCase()}`);
  if (day.active) ended.push(`${day.active} not ended`);
  if (day.planned) ended.push(`${day.planned} to come`);
  if (day.skipped_by_clock) ended.push(`${day.skipped_by_clock} that do not exist`);
  return ended.join(', ') || 'nothing';
}

/** `23 hours` for a day on which clocks change; nothing for others. */
export function oddLength(minutes: number): string {
  if (minutes === 1440) return '';
  return `${minutes % 60 ? (minutes / 60).toFixed(1) : minutes / 60} hours`;
}

/** The date of a local day, read as UTC: for its name only. */
export const asUtc = (date: string): Date => new Date(`${date}T00:00:00Z`);

export function moved(date: string, days: number): string {
  return new Date(asUtc(date).getTime() + days * 86_400_000).toISOString().slice(0, 10);
}

/** The Monday of a date's week. */
export function monday(date: string): string {
  return moved(date, -((asUtc(date).getUTCDay() + 6) % 7));
}

export type HourRow = { label: string; note: string; isMissing: boolean; ticks: Tick[] };

/** The hours of a day as its clocks show them: one that is missing has a row too, one that comes twice has two. */
export function hourRows(startsAt: string, minutes: number, zone: string, ticks: Tick[]): HourRow[] {
  const rows: HourRow[] = [];
  const start = Date.parse(startsAt);
  const end = start + minutes * 60_000;
  // By quarters, because clocks may change by half an hour.
  let last: { hour: string; offset: string } | undefined;
  const starts: { at: number; hour: string; offset: string }[] = [];
  for (let at = start; at < end; at += 900_000) {
    const hour = clockTime(new Date(at), zone).slice(0, 2);
    const offset = offsetName(new Date(at), zone);
    if (last && last.hour === hour && last.offset === offset) continue;
    starts.push({ at, hour, offset });
    last = { hour, offset };
  }
  starts.forEach((it, i) => {
    const before = starts[i - 1];
    const missing = before && before.offset !== it.offset ? Number(it.hour) - Number(before.hour) - 1 : 0;
    for (let n = 0; n < missing; n++) {
      const hour = String(Number(before?.hour) + 1 + n).padStart(2, '0');
      rows.push({ label: hour, note: 'does not exist: clocks jump over it', isMissing: true, ticks: [] });
    }
    const twin = starts.findIndex((other, j) => j !== i && other.hour === it.hour);
    const note = twin < 0 ? '' : `${i < twin ? 'first' : 'second'} pass, ${it.offset}`;
    const until = starts[i + 1]?.at ?? end;
    const inside = ticks.filter((tick) => Date.parse(tick.scheduled_time) >= it.at && Date.parse(tick.scheduled_time) < until);
    rows.push({ label: it.hour, note, isMissing: false, ticks: inside });
  });
  return rows;
}
