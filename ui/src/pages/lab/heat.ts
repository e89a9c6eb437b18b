// The heat map: hours of the week to come as rows of days.

import type { Schema } from '../../api/client.ts';

export type HeatCell = { at: string; starts: number; busiest: number; isTwice: boolean };
export type HeatRow = { date: string; cells: (HeatCell | undefined)[] };

/** Hours by local day and local hour. One that comes twice on a day is one cell with both. */
export function heatRows(hours: Schema['HeatHour'][]): HeatRow[] {
  const rows: HeatRow[] = [];
  for (const hour of hours) {
    const date = hour.local.slice(0, 10);
    let row = rows.at(-1);
    if (row?.date !== date) {
      row = { date, cells: Array.from({ length: 24 }, () => undefined) };
      rows.push(row);
    }
    const n = Number(hour.local.slice(11, 13));
    const known = row.cells[n];
    row.cells[n] = known
      ? { at: known.at, starts: known.starts + hour.starts, busiest: Math.max(known.busiest, hour.busiest), isTwice: true }
      : { at: hour.at, starts: hour.starts, busiest: hour.busiest, isTwice: false };
  }
  return rows;
}

/** The step of the colours, 0 for nothing. Roots keep small numbers apart when one hour has thousands. */
export function heatStep(starts: number, top: number): number {
  if (!starts || !top) return 0;
  return Math.max(1, Math.ceil(Math.sqrt(starts / top) * 6));
}
