// Lines of an output in the address: `#L10`, or `#L10-20`.

export type LineRange = { first: number; last: number };

export function readRange(hash: string): LineRange | undefined {
  const [, first, last] = /^#L(\d{1,9})(?:-(\d{1,9}))?$/.exec(hash) ?? [];
  if (!Number(first)) return undefined;
  const ends = [Number(first), Number(last ?? first)];
  return { first: Math.max(1, Math.min(...ends)), last: Math.max(...ends) };
}

export function rangeText({ first, last }: LineRange): string {
  return last > first ? `L${first}-${last}` : `L${first}`;
}

/** The lines that a click names: with the shift key, all from the line that was clicked before. */
export function clicked(line: number, before: LineRange | undefined, isShift: boolean): LineRange {
  if (!isShift || !before) return { first: line, last: line };
  return line < before.first ? { first: line, last: before.last } : { first: before.first, last: line };
}

/** Puts the lines into the address without a new entry of the history. */
export function showInAddress(range: LineRange | undefined): void {
  history.replaceState(history.state, '', `${location.pathname}${location.search}${range ? `#${rangeText(range)}` : ''}`);
}
