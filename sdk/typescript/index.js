// Client and worker for queues of Punctual. Only the platform is used.

import { randomUUID } from 'node:crypto';
import { Worker as Thread } from 'node:worker_threads';

export { Client, PunctualError } from './client.js';

/** The message is delivered again, after `after` seconds if that is given. */
export class Retry extends Error {
  constructor(text = '', after = undefined) {
    super(text);
    this.name = 'Retry';
    this.after = after;
  }
}

/** No other attempt can succeed: the message becomes a dead letter. */
export class Fail extends Error {
  constructor(text = '') {
    super(text);
    this.name = 'Fail';
  }
}

const ERROR_LENGTH_MAX = 4000;
const RESULT_BYTES_MAX = 1 << 20;
const OUTPUT_LENGTH_MAX = 64 << 10;

const failed = (error, more = {}) => ['failed', { error: error.slice(0, ERROR_LENGTH_MAX), ...more }];

/** The outcome of a message whose handler returned a value. */
function resultOf(value) {
  if (value instanceof Fail || value instanceof Retry) return errorOf(value);
  if (value === undefined || value === null) return ['done', {}];
  let text;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    return failed(`the result is no JSON: ${error.message}`, { is_permanent: true });
  }
  if (text === undefined) return ['done', {}];
  const size = Buffer.byteLength(text);
  if (size > RESULT_BYTES_MAX) {
    return failed(`the result has ${size} bytes; the most are ${RESULT_BYTES_MAX}`, { is_permanent: true });
  }
  return ['done', { result: JSON.parse(text) }];
}

/** The outcome of a message whose handler threw an error. */
function errorOf(error) {
  const text = String(error?.message ?? error);
  if (error instanceof Fail) return failed(text, { is_permanent: true });
  if (error instanceof Retry) {
    return failed(text, error.after === undefined ? {} : { delay_seconds: error.after });
  }
  return failed(`${error?.name ?? 'Error'}: ${text}`);
}

/** A message as a handler gets it; `say` sends the requests of the handler to the session. */
function makeMessage(lease, say) {
  const cancelled = new AbortController();
  const lines = [];
  const write = (level) => (text) => void lines.push(`${level} ${text}\n`);
  const message = {
    ...lease,
    action: lease.payload?.action,
    signal: cancelled.signal,
    deadline: new Date(Date.now() + lease.timeout_seconds * 1000),
    log: { debug: write('DEBUG'), info: write('INFO'), warn: write('WARN'), error: write('ERROR') },
    progress: (value) => say({ type: 'progress', id: lease.id, value: JSON.parse(JSON.stringify(value)) }),
    extend(seconds) {
      message.deadline = new Date(Date.now() + seconds * 1000);
      say({ type: 'extend', id: lease.id, seconds });
    },
  };
  const output = () => lines.join('').slice(-OUTPUT_LENGTH_MAX);
  return { message, cancelled, output };
}

/** Works on the messages of queues until it is stopped. */
export class Worker {
  #handlers = new Map();
  #default = undefined;
  #running = new Map();
  #thread = undefined;
  #stop = () => {};
  #freed = () => {};

  constructor(client, queue, { concurrency = 4, lease, wait = 20, grace = 30, session, log = console } = {}) {
    if (concurrency < 1 || lease < 1) throw new RangeError('concurrency and lease must be at least 1');
    const queues = Array.isArray(queue) ? queue : [queue];
    Object.assign(this, { client, queues, concurrency, lease, wait, grace, log });
    this.session = session ?? randomUUID();
  }

  /** The handler of messages that no `action` is for. */
  handle(handler) {
    this.#default = { handler };
    return this;
  }

  /** The handler of messages whose payload has `"action": name`. */
  action(name, handler) {
    this.#handlers.set(name, { handler });
    return this;
  }

  /** A handler of several messages at a time; `name` is undefined for those that no action is for. */
  batch(name, handler, { max = 100 } = {}) {
    const entry = { handler, max };
    if (name === undefined) this.#default = entry;
    else this.#handlers.set(name, entry);
    return this;
  }

  /** Takes no new messages, releases those not begun; `run` resolves when the handlers have ended. */
  stop() {
    this.#stop();
  }

  /** Works until `stop`, SIGTERM, SIGINT, or until the server says STOP. */
  async run({ signals = true } = {}) {
    const { url, token, timeout } = this.client;
    const { session, queues, concurrency, lease, wait } = this;
    const stopped = new Promise((resolve) => {
      this.#stop = resolve;
    });
    const onSignal = () => this.#stop();
    if (signals) for (const name of ['SIGTERM', 'SIGINT']) process.on(name, onSignal);
    const workerData = { client: { url, token, timeout }, session, queues, concurrency, lease, wait };
    const thread = new Thread(new URL('./session.js', import.meta.url), { workerData });
    this.#thread = thread;
    const ended = new Promise((resolve, reject) => {
      thread.on('error', reject);
      thread.on('message', (message) => this.#hear(message, resolve));
    });
    try {
      await Promise.race([stopped, ended]);
      thread.postMessage({ type: 'stop' });
      await Promise.race([this.#drained(), new Promise((resolve) => setTimeout(resolve, this.grace * 1000).unref())]);
      for (const { cancelled } of this.#running.values()) cancelled.abort();
      thread.postMessage({ type: 'end' });
      await ended;
    } finally {
      await thread.terminate();
      if (signals) for (const name of ['SIGTERM', 'SIGINT']) process.off(name, onSignal);
    }
  }

  async #drained() {
    while (this.#running.size > 0) {
      await new Promise((resolve) => {
        this.#freed = resolve;
      });
    }
  }

  #hear(message, ended) {
    switch (message.type) {
      case 'messages':
        this.#begin(message.messages);
        break;
      case 'cancel':
        for (const id of message.ids) this.#running.get(id)?.cancelled.abort();
        break;
      case 'state':
        if (message.state === 'STOP') this.#stop();
        break;
      case 'log':
        this.log[message.level](message.text);
        break;
      case 'ended':
        ended();
        break;
    }
  }

  #entryOf(lease) {
    return this.#handlers.get(lease.payload?.action) ?? this.#default;
  }

  #begin(leases) {
    const groups = [];
    for (const lease of leases) {
      const entry = this.#entryOf(lease);
      const last = groups.at(-1);
      if (entry?.max && last?.entry === entry && last.leases.length < entry.max) last.leases.push(lease);
      else groups.push({ entry, leases: [lease] });
    }
    for (const { entry, leases: group } of groups) void this.#work(entry, group);
  }

  async #work(entry, leases) {
    const begun = leases.map((lease) => makeMessage(lease, (wish) => this.#thread.postMessage(wish)));
    leases.forEach((lease, i) => this.#running.set(lease.id, begun[i]));
    this.#thread.postMessage({ type: 'begun', ids: leases.map((lease) => lease.id) });
    const outcomes = await this.#outcomes(entry, begun.map((it) => it.message));
    leases.forEach(({ id, fence, queue }, i) => {
      const [kind, fields] = outcomes[i];
      const output = begun[i].output();
      this.#running.delete(id);
      this.#thread.postMessage({
        type: 'report', kind, id, fence, queue, fields: output ? { ...fields, output } : fields,
      });
    });
    this.#freed();
  }

  async #outcomes(entry, messages) {
    if (!entry) {
      const error = new Fail(`no handler for action ${JSON.stringify(messages[0].action)}`);
      return messages.map(() => errorOf(error));
    }
    try {
      const result = await entry.handler(entry.max ? messages : messages[0]);
      if (!entry.max) return [resultOf(result)];
      const results = result ?? messages.map(() => undefined);
      if (results.length === messages.length) return results.map(resultOf);
      const text = `the handler returned ${results.length} results for ${messages.length} messages`;
      return messages.map(() => failed(text));
    } catch (error) {
      if (!(error instanceof Fail || error instanceof Retry)) {
        this.log.error(`message ${messages[0].id} failed:`, error);
      }
      return messages.map(() => errorOf(error));
    }
  }

  /** Tries the handler of a message without a server; answers what the worker would report. */
  async deliver(payload, fields = {}) {
    const lease = {
      id: randomUUID(), fence: 1, queue: 'test', workspace: '', payload, headers: {}, priority: 5,
      attempt: 1, timeout_seconds: 3600, ...fields,
    };
    const progress = [];
    const { message, output } = makeMessage(lease, (wish) => wish.type === 'progress' && progress.push(wish.value));
    const [[kind, told]] = await this.#outcomes(this.#entryOf(lease), [message]);
    return { kind, ...told, output: output(), progress };
  }
}
