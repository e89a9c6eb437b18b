// The shapes of states as paths: what is filled, what is drawn as a line, what is cut out in the
// colour of the surface, and the dashes of the line.

import type { State } from './state.ts';

type Shape = [filled: string, line?: string, cut?: string, dashes?: string];

const RING = 'M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2';
const bar = (top: number, bottom: number) => `M2 ${top}h2a1 1 0 0 1 1 1v${bottom - top - 2}a1 1 0 0 1-1 1H2a1 1 0 0 1-1-1v-${bottom - top - 2}a1 1 0 0 1 1-1`;
const wide = (top: number, bottom: number) => `M1.5 ${top}h3a1 1 0 0 1 1 1v${bottom - top - 2}a1 1 0 0 1-1 1h-3a1 1 0 0 1-1-1v-${bottom - top - 2}a1 1 0 0 1 1-1`;

/** In a box of 16 × 16. The shape alone tells the state. */
export const ICONS: Record<State, Shape> = {
  COMPLETED: ['M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1', '', 'M4.8 8.2l2.2 2.2 4.2-4.6'],
  FAILED: ['M5 1h6l4 4v6l-4 4H5l-4-4V5z', '', 'M5.4 5.4l5.2 5.2m0-5.2l-5.2 5.2'],
  TIMEOUT: ['M3 1h10v3L9 8l4 4v3H3v-3l4-4-4-4z'],
  MISSED: ['', 'M8 1.5L15 14H1zM8 6v4M8 11.4v1.4'],
  LOST: ['', 'M8 1l7 7-7 7-7-7zM6 6.4c0-2.6 4-2.6 4 0 0 1.6-2 1.6-2 3.1M8 11.2v1.2'],
  RUNNING: ['M6.4 5.2v5.6L11 8z', RING, '', '26 12'],
  QUEUED: ['', `${RING}M5 8h6`],
  PENDING: ['', RING, '', '2.2 2.5'],
  SKIPPED: ['M3 4l5 4-5 4zM8 4l5 4-5 4z'],
  CANCELLED: ['', `${RING}M4 12l8-8`],
};

/** In a box of 6 × 20. Height is severity: trouble stands out as a skyline, in grey too. */
export const TICKS: Record<State, Shape> = {
  COMPLETED: [bar(10, 19)],
  FAILED: [wide(1, 19), '', 'M1.5 4l3 3m0-3l-3 3'],
  TIMEOUT: [wide(1, 9) + wide(11, 19)],
  MISSED: ['', 'M1.2 1.7h3.6v16.6H1.2z'],
  LOST: ['M.5 1h5v3.4h-5zM.5 6h5v3.4h-5zM.5 11h5v3.4h-5zM.5 16h5v3.4h-5z'],
  RUNNING: [bar(6, 19), '', 'M1 16l4-3M1 12l4-3'],
  QUEUED: ['', 'M1.2 10.7h3.6v7.6H1.2z'],
  PENDING: ['M1 17.5h4v1.6H1z'],
  SKIPPED: ['M3 15.1a1.9 1.9 0 1 1 0 3.8 1.9 1.9 0 0 1 0-3.8'],
  CANCELLED: ['M.8 19v-6.5h4.4V19z', '', 'M0 18l6-7'],
};
