// Why a run ended as it did, in the words that say most: of a failure the error, of everything
// else the reason.

import type { Run } from '../api/client.ts';

export function reasonOf(run: Run): string | undefined {
  const { error_message: error, reason_message: reason } = run;
  const isFailure = run.status === 'FAILED' || run.status === 'TIMEOUT';
  return (isFailure ? (error ?? reason) : (reason ?? error)) ?? undefined;
}
