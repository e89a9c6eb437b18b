// Works on so many messages of a queue, and ends: `drain.js QUEUE COUNT`.

import { Client, Worker } from '../index.js';

const [queue, count] = process.argv.slice(2);
let left = Number(count);
const worker = new Worker(new Client(), queue, { concurrency: 200, wait: 5 });
worker.batch(
  undefined,
  (messages) => {
    left -= messages.length;
    if (left <= 0) worker.stop();
  },
  { max: 100 },
);
await worker.run();
