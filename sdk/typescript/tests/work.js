// A worker for tests: appends the number of each message that it has done to a file.
//
//   work.js QUEUE FILE [--until-idle]
//
// A payload {"do": …} selects another outcome than success, see ../../conformance.json.

import { appendFileSync } from 'node:fs';
import { Client, Fail, Retry, Worker } from '../index.js';

const [queue, path, ...flags] = process.argv.slice(2);
const lease = Number(process.env.LEASE ?? '2');
const worker = new Worker(new Client(), queue, { concurrency: 4, lease, wait: 1 });
let last = Date.now();

const note = ({ payload, attempt, fence }) => {
  appendFileSync(path, `${payload.n} ${attempt} ${fence}\n`);
  last = Date.now();
};

worker.handle(async (message) => {
  last = Date.now();
  const wish = message.payload.do;
  if (wish === 'retry' && message.attempt < 3) throw new Retry('not yet', 0);
  if (wish === 'fail') throw new Fail('never');
  if (wish === 'raise') throw new TypeError('broken');
  // The main thread is blocked: the session continues in a thread of its own.
  if (wish === 'block') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3 * lease * 1000);
  if (wish === 'log') {
    message.log.info('half way');
    message.progress({ percent: 50 });
  }
  if (wish === 'slow') {
    message.extend(60);
    await new Promise((resolve) => setTimeout(resolve, 5 * lease * 1000));
  }
  if (wish === 'large') return 'x'.repeat(1 << 20);
  note(message);
  return { n: message.payload.n };
});

worker.action('greet', (message) => {
  note(message);
  return 'hello';
});

worker.batch(
  'batch',
  (messages) => {
    messages.forEach(note);
    return messages.map(({ payload }) => (payload.n % 2 ? new Fail('odd') : 'even'));
  },
  { max: 10 },
);

if (flags.includes('--until-idle')) {
  const watch = setInterval(() => {
    if (Date.now() - last < (3 * lease + 2) * 1000) return;
    clearInterval(watch);
    worker.stop();
  }, 200);
}
await worker.run();
