// Ranges of time in an address: `-24h` counts from now, whenever it is read; everything else is an
// instant.

export const RANGES = [
  { name: 'Any time', value: '' },
  { name: 'Last hour', value: '-1h' },
  { name: 'Last 24 hours', value: '-24h' },
  { name: 'Last 7 days', value: '-168h' },
];

/** The instant that a text of the address means; none if it means none. */
export function instantOf(text: string, now: number): string | undefined {
  const [, hours] = /^-(\d{1,4})h$/.exec(text) ?? [];
  // To the minute, so that tabs ask the same question.
  if (hours) return new Date(Math.floor((now - Number(hours) * 3_600_000) / 60_000) * 60_000).toISOString();
  const at = /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? undefined : new Date(at).toISOString();
}
