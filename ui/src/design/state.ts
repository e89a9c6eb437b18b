// The one table of states: shape, word and colour of each.

export type State =
  | 'COMPLETED' | 'FAILED' | 'TIMEOUT' | 'MISSED' | 'LOST'
  | 'RUNNING' | 'QUEUED' | 'PENDING' | 'SKIPPED' | 'CANCELLED';

const STATES: State[] = [
  'COMPLETED', 'FAILED', 'TIMEOUT', 'MISSED', 'LOST', 'RUNNING', 'QUEUED', 'PENDING', 'SKIPPED', 'CANCELLED',
];

/** A status of the API as a state; what is unknown waits. */
export function stateOf(status: string | null | undefined): State {
  // A run that is held was lost with its node and waits for a decision.
  if (status === 'HELD') return 'LOST';
  return STATES.find((it) => it === status) ?? 'PENDING';
}

export const className = (state: State): string => state.toLowerCase();

/** Whether a run has ended. */
export function isOver(status: string): boolean {
  return !['PENDING', 'QUEUED', 'RUNNING', 'HELD'].includes(status);
}

/** Whether an operator should look at it. */
export function isBad(status: string): boolean {
  return status === 'FAILED' || status === 'TIMEOUT' || status === 'MISSED' || status === 'LOST';
}

/** Whether nothing was executed. */
export function neverRan(status: string): boolean {
  return status === 'SKIPPED' || status === 'MISSED';
}
