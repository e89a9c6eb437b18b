// Data of a page: what was answered last stays until something newer is there.

import { untrack } from 'svelte';
import { asProblem, Problem } from './problem.ts';

// How many questions are open, as an attribute of the page: tests wait for its end.
let open = 0;
function count(step: number): void {
  open += step;
  if (open) document.documentElement.dataset.busy = String(open);
  else delete document.documentElement.dataset.busy;
}

/** How long an answer may take before the page says that it waits. */
const STALLED_MS = 5000;

/** Answers by the address of their page: going back shows what was there, until the next answer. */
const remembered = new Map<string, { data: unknown; at: number }>();
const REMEMBERED_MAX = 60;

export class Load<T> {
  data = $state.raw<T | undefined>();
  problem = $state.raw<Problem | undefined>();
  /** When the data was answered, in milliseconds of this browser. */
  at = $state(0);
  loading = $state(false);
  /** Whether the first answer takes so long that a placeholder is due. */
  slow = $state(false);
  /** Whether the server has not answered for so long that the page says so. */
  stalled = $state(false);
  #asked = 0;
  #abort: AbortController | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;

  /** With a `key`, an answer is remembered and shown at once when its page is opened again. */
  constructor(
    private readonly ask: (signal: AbortSignal) => Promise<T>,
    private readonly key?: () => string,
  ) {}

  /** Asks now. A newer question makes an older answer worthless. */
  async now(): Promise<void> {
    const asked = ++this.#asked;
    // What is read here must not make the caller's effect ask again.
    const key = untrack(() => this.key?.());
    const known = key === undefined || untrack(() => this.at) ? undefined : remembered.get(key);
    if (known) {
      this.data = known.data as T;
      this.at = known.at;
    }
    clearTimeout(this.#again);
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.loading = true;
    count(1);
    const timer = setTimeout(() => (this.slow = this.data === undefined), 200);
    const stalled = setTimeout(() => (this.stalled = true), STALLED_MS);
    try {
      // What the question reads must not make the caller's effect ask again.
      const data = await untrack(() => this.ask(abort.signal));
      if (asked !== this.#asked) return;
      this.data = data;
      this.problem = undefined;
      this.at = Date.now();
      if (key !== undefined) remember(key, data, this.at);
    } catch (error) {
      if (asked !== this.#asked || abort.signal.aborted) return;
      const problem = asProblem(error);
      this.problem = problem;
      // Too many requests: the server says when to come again.
      if (problem.status === 429) this.#again = setTimeout(() => void this.now(), (problem.retryAfter ?? 1) * 1000);
    } finally {
      count(-1);
      clearTimeout(timer);
      clearTimeout(stalled);
      if (asked === this.#asked) {
        this.loading = false;
        this.slow = false;
        this.stalled = false;
      }
    }
  }

  /** Gives up waiting for the first answer. */
  cancel(): void {
    this.stop();
    this.slow = this.stalled = false;
    this.problem = new Problem(0, 'CANCELLED', 'the page stopped waiting for the server');
  }

  /** Stops what is under way. */
  stop(): void {
    this.#asked += 1;
    this.#abort?.abort();
    clearTimeout(this.#again);
    this.loading = false;
  }
}

function remember(key: string, data: unknown, at: number): void {
  remembered.delete(key);
  remembered.set(key, { data, at });
  const oldest = remembered.keys().next().value;
  if (remembered.size > REMEMBERED_MAX && oldest !== undefined) remembered.delete(oldest);
}

/** Forgets all answers: another user may see other things. */
export function forgetAnswers(): void {
  remembered.clear();
}

type Page<T> = { data: T[]; next_cursor?: string | null };

/** A list that grows by pages. A refetch reads as many rows as are shown, at most 500. `P` is what a page has besides its items. */
export class PagedLoad<T, P extends object = object> extends Load<Page<T> & P> {
  constructor(ask: (cursor: string | undefined, limit: number, signal: AbortSignal) => Promise<Page<T> & P>, key?: () => string) {
    super((signal) => ask(undefined, Math.min(Math.max(this.data?.data.length ?? 0, 50), 500), signal), key);
    this.#page = ask;
  }
  #page: (cursor: string | undefined, limit: number, signal: AbortSignal) => Promise<Page<T> & P>;
  loadingMore = $state(false);

  async more(): Promise<void> {
    const shown = this.data;
    if (!shown?.next_cursor || this.loadingMore) return;
    this.loadingMore = true;
    try {
      const next = await this.#page(shown.next_cursor, 50, new AbortController().signal);
      if (this.data === shown) this.data = { ...next, data: [...shown.data, ...next.data] };
    } catch (error) {
      this.problem = asProblem(error);
    } finally {
      this.loadingMore = false;
    }
  }
}
