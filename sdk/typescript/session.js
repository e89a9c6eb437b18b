// A session with the server, in a thread of its own: handlers may block the main thread and keep
// their messages. The main thread sends reports, progress and wishes; this one polls.

import { parentPort, workerData } from 'node:worker_threads';
import { Client, PunctualError } from './client.js';

const { client: options, session, queues, concurrency, lease, wait } = workerData;
const client = new Client(options);

let seq = 0;
let open = 0;
let reports = [];
let hasNews = false;
let soon;
let state = 'RUN';
let isStopping = false;
let isEnding = false;
const held = new Map();

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const warn = (text) => parentPort.postMessage({ type: 'log', level: 'warn', text });

parentPort.on('message', (message) => {
  switch (message.type) {
    case 'report':
      // A message that is not held any more was released when the worker stopped.
      if (held.delete(message.id)) reports.push(message);
      break;
    case 'begun':
      for (const id of message.ids) if (held.has(id)) held.get(id).isBegun = true;
      soon ??= setTimeout(news, 1000);
      return;
    case 'progress':
      if (held.has(message.id)) held.get(message.id).progress = message.value;
      soon ??= setTimeout(news, 1000);
      return;
    case 'extend':
      if (held.has(message.id)) held.get(message.id).timeout = message.seconds;
      hasNews = true;
      break;
    case 'stop':
      isStopping = true;
      hasNews = true;
      break;
    case 'end':
      for (const it of held.values()) reports.push({ kind: 'released', ...it.key, fields: {} });
      held.clear();
      isEnding = true;
      break;
  }
  poll();
});

function news() {
  soon = undefined;
  hasNews = true;
  poll();
}

/** Sends a poll if none is open, or if there is something to send while one is. */
function poll() {
  const isDue = open === 0 || (open < 2 && (reports.length > 0 || hasNews));
  if (!isDue) return;
  if (isEnding && reports.length === 0) {
    if (open === 0) parentPort.postMessage({ type: 'ended' });
    return;
  }
  open += 1;
  send().finally(() => {
    open -= 1;
    poll();
  });
}

function makeBody() {
  seq += 1;
  const isOpen = !isStopping && state === 'RUN';
  const body = {
    seq,
    want: isOpen ? Math.max(concurrency - held.size, 0) : 0,
    queues,
    wait_s: isOpen ? wait : Math.min(wait, 1),
    ...(lease === undefined ? {} : { lease_s: lease }),
  };
  const sent = reports;
  reports = [];
  hasNews = false;
  clearTimeout(soon);
  soon = undefined;
  for (const { kind, id, fence, queue, fields } of sent) {
    (body[kind] ??= []).push({ id, fence, queue, ...fields });
  }
  for (const it of held.values()) {
    if (it.timeout !== undefined) (body.extend ??= []).push({ ...it.key, timeout_s: it.timeout });
    const progress = it.progress === undefined ? {} : { progress: it.progress };
    // Its time limit begins with its handler.
    (body.running ??= []).push({ ...it.key, ...progress, ...(it.isBegun ? {} : { is_unstarted: true }) });
    it.timeout = it.progress = undefined;
  }
  return [body, sent];
}

async function send() {
  const [body, sent] = makeBody();
  // A poll that is sent again has the same number, and gets the same answer.
  for (let pause = 100; ; pause = Math.min(pause * 2, 5000)) {
    try {
      return take(await client.poll(session, body));
    } catch (error) {
      const isFinal = error instanceof PunctualError && error.status < 500 && error.status !== 429;
      if (!isFinal && !(isEnding && pause > 2000)) {
        warn(`poll not answered, sending it again: ${error.message}`);
        await sleep(pause);
        continue;
      }
      if (error.code === 'STALE_FENCE') {
        for (const { id } of sent) warn(`message ${id} was given to another worker`);
        cancel((body.running ?? []).map((it) => it.id));
        return;
      }
      // It was overtaken by the next poll: its results are sent again.
      if (error.code === 'WRONG_STATE') {
        reports = [...sent, ...reports];
        return;
      }
      warn(`poll refused: ${error.message}`);
      await sleep(1000);
      return;
    }
  }
}

function cancel(ids) {
  if (ids.length > 0) parentPort.postMessage({ type: 'cancel', ids });
}

function take(answer) {
  cancel(answer.cancel);
  if (answer.state !== state) {
    state = answer.state;
    parentPort.postMessage({ type: 'state', state });
  }
  const messages = answer.messages.filter((it) => !held.has(it.id));
  if (isStopping) {
    for (const { id, fence, queue } of messages) reports.push({ kind: 'released', id, fence, queue, fields: {} });
    return;
  }
  for (const { id, fence, queue } of messages) held.set(id, { key: { id, fence, queue } });
  if (messages.length > 0) parentPort.postMessage({ type: 'messages', messages });
}

poll();
