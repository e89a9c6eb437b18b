// Handlers are tried without a server: exits with an error if an outcome differs.

import { deepStrictEqual } from 'node:assert';
import { Client, Fail, Retry, Worker } from '../index.js';

const worker = new Worker(new Client({ url: 'http://127.0.0.1:1' }), 'tasks', { log: { warn() {}, error() {} } });
worker.action('welcome', async (message) => {
  message.log.info(`to ${message.payload.to}`);
  message.progress(0.5);
  return { sent: message.payload.to, attempt: message.attempt };
});
worker.handle(({ payload }) => {
  if (payload === 'retry') throw new Retry('later', 5);
  if (payload === 'fail') throw new Fail('no');
  throw new TypeError('x');
});

deepStrictEqual(await worker.deliver({ action: 'welcome', to: 'ann' }, { attempt: 2 }), {
  kind: 'done', result: { sent: 'ann', attempt: 2 }, output: 'INFO to ann\n', progress: [0.5],
});
const told = async (payload) => {
  const { kind, output, progress, ...fields } = await worker.deliver(payload);
  deepStrictEqual([kind, output, progress], ['failed', '', []]);
  return fields;
};
deepStrictEqual(await told('retry'), { error: 'later', delay_seconds: 5 });
deepStrictEqual(await told('fail'), { error: 'no', is_permanent: true });
deepStrictEqual(await told('?'), { error: 'TypeError: x' });
console.log('ok');
