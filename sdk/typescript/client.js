// Requests to a server of Punctual. Only the platform is used: fetch and AbortSignal.

/** A request was refused: `status`, `code` and the text of the server. */
export class PunctualError extends Error {
  constructor(status, code, text) {
    super(code ? `${code}: ${text}` : text);
    this.name = 'PunctualError';
    this.status = status;
    this.code = code;
  }
}

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

  /** A poll of a worker's session: results in, messages out. */
  async poll(session, body) {
    const path = `/v1/workers/${encodeURIComponent(session)}/poll`;
    const answer = await this.call(path, body, this.timeout + (body.wait_s ?? 0));
    return { ...answer, messages: answer.messages.map((it) => ({ headers: {}, ...it })) };
  }

  async post(queue, verb, body, timeout = this.timeout, signal = undefined) {
    return this.call(`/v1/queues/${encodeURIComponent(queue)}/${verb}`, body, timeout, signal);
  }

  async call(path, body, timeout = this.timeout, signal = undefined) {
    const limit = AbortSignal.timeout(timeout * 1000);
    const answer = await fetch(this.url + path, {
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
