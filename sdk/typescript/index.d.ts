/** Address of the server and its token; `PUNCTUAL_SERVER` and `PUNCTUAL_TOKEN` when absent. */
export interface ClientOptions {
  url?: string;
  token?: string;
  /** Seconds that a request may take. */
  timeout?: number;
}

/** Fields of a message beside its payload. */
export interface MessageFields {
  workspace?: string;
  priority?: number;
  delay_seconds?: number;
  process_after?: string;
  time_to_live_seconds?: number;
  deduplication_key?: string;
  deduplication_seconds?: number;
  ordering_key?: string;
  headers?: Record<string, string>;
}

/** A leased message. */
export interface Lease<P = unknown> {
  id: string;
  /** The fencing token: larger than that of every lease before. */
  fence: number;
  workspace: string;
  payload: P;
  headers: Record<string, string>;
  ordering_key?: string;
  priority: number;
  /** The name of its queue. */
  queue: string;
  /** The number of this attempt, from 1. */
  attempt: number;
  max_attempts: number;
  /** How long an attempt may take, from its start. */
  timeout_seconds: number;
  correlation_id: string;
  sent_at: string;
  lease_until: string;
}

/** A message in the hands of a handler. */
export interface Message<P = unknown> extends Lease<P> {
  /** The field `action` of the payload. */
  action?: string;
  /** Aborted when the lease has ended or the message was cancelled. */
  signal: AbortSignal;
  /** When its time limit ends. */
  deadline: Date;
  /** Its texts are the output of the run. */
  log: Record<'debug' | 'info' | 'warn' | 'error', (text: string) => void>;
  /** Says how far it is: any JSON value, shown with the message. */
  progress(value: unknown): void;
  /** Asks for so much time from now on, instead of the time limit of the queue. */
  extend(seconds: number): void;
}

/** The result for one message of a report. */
export interface ReportResult {
  id: string;
  /** 200, or 409 if another worker has the message. */
  status: number;
  outcome?: string;
  lease_until?: string;
  cancel?: boolean;
}

export interface Report {
  id: string;
  fence: number;
  result?: unknown;
  error?: string;
  delay_seconds?: number;
  is_unstarted?: boolean;
}

export class PunctualError extends Error {
  constructor(status: number, code: string, text: string);
  status: number;
  code: string;
}

/** The message is delivered again, after `after` seconds if that is given. */
export class Retry extends Error {
  constructor(text?: string, after?: number);
  after?: number;
}

/** No other attempt can succeed: the message becomes a dead letter. */
export class Fail extends Error {
  constructor(text?: string);
}

export class Client {
  constructor(options?: ClientOptions);
  /** Sends one message and returns its id; it is on disk when this resolves. */
  send(queue: string, payload: unknown, fields?: MessageFields): Promise<string>;
  /** Sends up to 10,000 messages, all of them or none, and returns their ids. */
  sendMany(queue: string, messages: ({ payload: unknown } & MessageFields)[]): Promise<string[]>;
  /** Leases up to `max` messages; waits up to `wait` seconds until there is one. */
  lease<P = unknown>(
    queue: string,
    options?: { max?: number; wait?: number; lease?: number },
    signal?: AbortSignal,
  ): Promise<Lease<P>[]>;
  report(
    queue: string,
    verb: 'ack' | 'nack' | 'fail' | 'extend',
    messages: Report[],
    fields?: { lease_s?: number },
  ): Promise<ReportResult[]>;
  /** A poll of a worker's session: results in, messages out. */
  poll(session: string, body: object): Promise<PollAnswer>;
}

export interface PollAnswer {
  messages: Lease[];
  /** Messages that the worker should stop. */
  cancel: string[];
  state: 'RUN' | 'QUIET' | 'STOP';
  lease_until: string;
  server_time: string;
}

export type Handler<P = unknown> = (message: Message<P>) => unknown | Promise<unknown>;

export interface WorkerOptions {
  /** Handlers that run at the same time. */
  concurrency?: number;
  /** Seconds that the worker keeps its messages without a poll; as the server is set when absent. */
  lease?: number;
  /** Seconds that running handlers have to finish after a stop; then their messages go back. */
  grace?: number;
  /** The name of the session; a random one when absent. */
  session?: string;
  /** Seconds that a request waits for messages. */
  wait?: number;
  log?: Pick<Console, 'warn' | 'error'>;
}

export class Worker {
  constructor(client: Client, queue: string | string[], options?: WorkerOptions);
  handle<P = unknown>(handler: Handler<P>): this;
  action<P = unknown>(name: string, handler: Handler<P>): this;
  /** A handler of several messages: it returns nothing, or a result, `Retry` or `Fail` for each. */
  batch<P = unknown>(
    name: string | undefined,
    handler: (messages: Message<P>[]) => unknown[] | void | Promise<unknown[] | void>,
    options?: { max?: number },
  ): this;
  /** Tries the handler of a message without a server; answers what the worker would report. */
  deliver(payload: unknown, fields?: Partial<Lease>): Promise<{
    kind: 'done' | 'failed';
    result?: unknown;
    error?: string;
    is_permanent?: boolean;
    delay_seconds?: number;
    output: string;
    progress: unknown[];
  }>;
  stop(): void;
  run(options?: { signals?: boolean }): Promise<void>;
}
