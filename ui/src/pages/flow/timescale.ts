// Time as a share of the width, with the hours in which nothing happened made short.

type Piece = { from: number; to: number; left: number; right: number };
export type TimeScale = { at: (ms: number) => number; ticks: number[]; idle: Piece[] };

/** Pauses that are shorter than this share of the work stay as long as they are. */
const IDLE_SHARE = 0.1;
const IDLE_WIDTH = 0.03;
const STEPS_MS = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5];

export function timeScale(spans: { from: number; to: number }[], isShort: boolean): TimeScale {
  const sorted = [...spans].sort((a, b) => a.from - b.from);
  const busy: { from: number; to: number }[] = [];
  for (const span of sorted) {
    const last = busy.at(-1);
    if (last && span.from <= last.to) last.to = Math.max(last.to, span.to);
    else busy.push({ from: span.from, to: Math.max(span.to, span.from + 1) });
  }
  const first = busy[0]?.from ?? 0;
  const end = busy.at(-1)?.to ?? first + 1;
  const worked = busy.reduce((sum, it) => sum + it.to - it.from, 0);
  // Work and short pauses are as long as they took; long pauses all have one width.
  const parts: { from: number; to: number; isIdle: boolean }[] = [];
  let from = first;
  busy.forEach((it, i) => {
    const next = busy[i + 1]?.from;
    if (next === undefined || !isShort || next - it.to <= worked * IDLE_SHARE) return;
    parts.push({ from, to: it.to, isIdle: false }, { from: it.to, to: next, isIdle: true });
    from = next;
  });
  parts.push({ from, to: end, isIdle: false });
  const idleCount = parts.filter((it) => it.isIdle).length;
  const idleWidth = Math.min(IDLE_WIDTH, 0.5 / Math.max(1, idleCount));
  const total = parts.reduce((sum, it) => sum + (it.isIdle ? 0 : it.to - it.from), 0) || 1;
  let left = 0;
  const pieces = parts.map((it) => {
    const width = it.isIdle ? idleWidth : ((it.to - it.from) / total) * (1 - idleCount * idleWidth);
    const piece = { from: it.from, to: it.to, left, right: left + width };
    left += width;
    return { ...piece, isIdle: it.isIdle };
  });
  const at = (ms: number) => {
    const piece = pieces.find((it) => ms <= it.to) ?? pieces.at(-1);
    if (!piece) return 0;
    const share = (ms - piece.from) / Math.max(1, piece.to - piece.from);
    return piece.left + Math.max(0, Math.min(1, share)) * (piece.right - piece.left);
  };
  const step = STEPS_MS.find((it) => total / it <= 6) ?? Math.ceil(total / 6 / 864e5) * 864e5;
  const ticks: number[] = [];
  for (const piece of pieces.filter((it) => !it.isIdle)) {
    for (let ms = Math.ceil(piece.from / step) * step; ms <= piece.to; ms += step) if (ticks.length < 12) ticks.push(ms);
  }
  return { at, ticks, idle: pieces.filter((it) => it.isIdle) };
}
