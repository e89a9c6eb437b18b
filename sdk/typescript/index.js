// Client and worker for queues of Punctual. Only the platform is used: fetch, timers, AbortSignal.

/** A request was refused: `status`, `code` and the text of the server. */
export class PunctualError extends Error {
  constructor(status, code, text) {
    super(code ? `${code}: ${text}` : text);
    this.name = 'PunctualError';
    this.status = status;
    this.code = code;
  }
}

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
const REPORT_PAUSES = [100, 500, 1000, 2000, 5000];

const sleep = (ms, signal) =>
  new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    }
    signal?.addEventListener('abort', done);
  });

/** A server of Punctual. */
export class Client {
  constructor({ url, token, timeout = 30 } = {}) {
    this.url = (url ?? process.env.PUNCTUAL_SERVER ?? 'http://127.0.0.1:8630').replace(/\/+$/, '');
    this.token = token ?? process.env.PUNCTUAL_TOKEN;
    this.timeout = timeout;
  }

  async send(queue, payload, fields = {}) {
    const [id] = await this.sendMany(queue, [{ payload, ...fields }]);
    return id;
  }

  async sendMany(queue, messages) {
    const answer = await this.post(queue, 'messages', { messages });
    return answer.messages.map((message) => message.id);
  }

  async lease(queue, { max = 1, wait = 0, lease } = {}, signal = undefined) {
    const body = { max, wait_s: wait, ...(lease === undefined ? {} : { lease_s: lease }) };
    const answer = await this.post(queue, 'lease', body, this.timeout + wait, signal);
    return answer.messages.map((message) => ({ headers: {}, ...message }));
  }

  async report(queue, verb, messages, fields = {}) {
    return (await this.post(queue, verb, { messages, ...fields })).messages;
  }

  async post(queue, verb, body, timeout = this.timeout, signal = undefined) {
    const limit = AbortSignal.timeout(timeout * 1000);
    const answer = await fetch(`${this.url}/v1/queues/${encodeURIComponent(queue)}/${verb}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(this.token ? { authorization: `Bearer ${this.token}` } : {}),
      },
      body: JSON.stringify(body),
      signal: signal ? AbortSignal.any([limit, signal]) : limit,
    });
    const text = await answer.text();
    if (answer.ok) return JSON.parse(text);
    let error = {};
    try {
      error = JSON.parse(text).error ?? {};
    } catch {
      // A proxy may answer with something else than JSON.
    }
    throw new PunctualError(answer.status, error.code ?? '', error.message ?? answer.statusText);
  }
}

/** Works on the messages of a queue until it is stopped. */
export class Worker {
  #handlers = new Map();
  #default = undefined;
  #stopping = new AbortController();
  #running = new Map();
  #reports = [];
  #reporting = undefined;
  #freed = () => {};

  constructor(client, queue, { concurrency = 4, lease = 30, wait = 20, log = console } = {}) {
    if (concurrency < 1 || lease < 1) throw new RangeError('concurrency and lease must be at least 1');
    Object.assign(this, { client, queue, concurrency, lease, wait, log });
  }

  /** The handler of messages that no action is for. */
  handle(handler) {
    this.#default = handler;
    return this;
  }

  /** The handler of messages whose payload has this `action`. */
  action(name, handler) {
    this.#handlers.set(name, handler);
    return this;
  }

  /** Takes nothing new; `run` returns when the running handlers have ended. */
  stop() {
    this.#stopping.abort();
  }

  /** Works until `stop`, SIGTERM or SIGINT. */
  async run({ signals = true } = {}) {
    const stop = () => this.stop();
    if (signals) for (const name of ['SIGTERM', 'SIGINT']) process.on(name, stop);
    const beat = setInterval(() => this.#extend(), (this.lease * 1000) / 3);
    try {
      while (!this.#stopping.signal.aborted) await this.#take();
      await Promise.all([...this.#running.values()].map((it) => it.ended));
      while (this.#reporting) await this.#reporting;
    } finally {
      clearInterval(beat);
      if (signals) for (const name of ['SIGTERM', 'SIGINT']) process.off(name, stop);
    }
  }

  /** Leases as many messages as there are free slots, and begins them. */
  async #take() {
    const free = this.concurrency - this.#running.size;
    if (free < 1) {
      await new Promise((resolve) => {
        this.#freed = resolve;
      });
      return;
    }
    // A short wait while others run: their slots become free.
    const wait = this.#running.size === 0 ? this.wait : Math.min(this.wait, 1);
    let messages = [];
    try {
      messages = await this.client.lease(this.queue, { max: free, wait, lease: this.lease });
    } catch (error) {
      this.log.warn(`no messages: ${error.message}`);
      await sleep(1000, this.#stopping.signal);
    }
    for (const message of messages) {
      if (this.#stopping.signal.aborted) {
        this.#report('nack', message, { is_unstarted: true });
      } else {
        this.#begin(message);
      }
    }
  }

  #begin(lease) {
    const cancelled = new AbortController();
    const message = { ...lease, action: lease.payload?.action, signal: cancelled.signal };
    const ended = this.#outcome(message).then(([verb, fields]) => {
      this.#running.delete(lease.id);
      this.#freed();
      this.#report(verb, lease, fields);
    });
    this.#running.set(lease.id, { lease, cancelled, ended });
  }

  async #outcome(message) {
    const handler = this.#handlers.get(message.action) ?? this.#default;
    if (!handler) return ['fail', { error: `no handler for action ${JSON.stringify(message.action)}` }];
    try {
      const result = await handler(message);
      // A value that JSON cannot hold fails here, and not with the reports of other messages.
      JSON.stringify(result);
      return ['ack', result === undefined ? {} : { result }];
    } catch (error) {
      const text = String(error?.message ?? error).slice(0, ERROR_LENGTH_MAX);
      if (error instanceof Fail) return ['fail', { error: text }];
      if (error instanceof Retry) {
        return ['nack', { error: text, ...(error.after === undefined ? {} : { delay_seconds: error.after }) }];
      }
      this.log.error(`message ${message.id} failed:`, error);
      return ['nack', { error: `${error?.name ?? 'Error'}: ${text}`.slice(0, ERROR_LENGTH_MAX) }];
    }
  }

  /** Sends reports; those that are there at the same time go together. */
  #report(verb, lease, fields) {
    this.#reports.push([verb, { id: lease.id, fence: lease.fence, ...fields }]);
    this.#reporting ??= this.#sendReports();
  }

  async #sendReports() {
    // Handlers that end in the same turn share a request.
    await null;
    while (this.#reports.length > 0) {
      const batch = this.#reports.splice(0);
      for (const verb of ['ack', 'nack', 'fail']) {
        const reports = batch.filter(([it]) => it === verb).map(([, report]) => report);
        if (reports.length > 0) await this.#send(verb, reports);
      }
    }
    this.#reporting = undefined;
  }

  async #send(verb, reports) {
    const lost = (id) => this.log.warn(`message ${id} was given to another worker`);
    // The lease may end meanwhile; until then, the same report is answered in the same way.
    for (const pause of [...REPORT_PAUSES, undefined]) {
      try {
        const results = await this.client.report(this.queue, verb, reports);
        for (const result of results) if (result.status !== 200) lost(result.id);
        return;
      } catch (error) {
        if (error.code === 'STALE_FENCE') return reports.forEach((report) => lost(report.id));
        const isRefused = error instanceof PunctualError && error.status < 500 && error.status !== 429;
        if (isRefused || pause === undefined) {
          this.log.error(`${verb} could not be reported: ${error.message}`);
          return;
        }
        await sleep(pause);
      }
    }
  }

  /** Keeps the leases of running handlers, three times in each lease. */
  async #extend() {
    const held = new Map(this.#running);
    if (held.size === 0) return;
    const leases = [...held.values()].map(({ lease }) => ({ id: lease.id, fence: lease.fence }));
    let results;
    try {
      results = await this.client.report(this.queue, 'extend', leases, { lease_s: this.lease });
    } catch (error) {
      if (error.code !== 'STALE_FENCE') {
        this.log.warn(`leases could not be extended: ${error.message}`);
        return;
      }
      results = leases.map(({ id }) => ({ id, status: 409 }));
    }
    for (const result of results) {
      if (result.status !== 200 || result.cancel) held.get(result.id)?.cancelled.abort();
    }
  }
}
