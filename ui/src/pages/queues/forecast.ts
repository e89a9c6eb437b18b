// What becomes of the messages that wait, at the rates of the last minute.

import { count, duration } from '../../time/format.ts';

export function forecast(ready: number, sent: number, ended: number): string {
  if (!ready) return 'none waits for a worker';
  const net = ended - sent;
  if (ended === 0) return 'no worker has finished one in the last minute';
  if (net > 0) return `the ready ones are done in about ${duration((ready / net) * 1000)} at this rate`;
  if (net === 0) return 'as many come as end';
  return `it grows by ${-net < 10 ? (-net).toFixed(1) : count(-net)} a second`;
}
