// Data of a page: what was answered last stays until something newer is there.

import { untrack } from 'svelte';
import { asProblem, type Problem } from './problem.ts';

// How many questions are open, as an attribute of the page: tests wait for its end.
let open = 0;
function count(step: number): void {
  open += step;
  if (open) document.documentElement.dataset.busy = String(open);
  else delete document.documentElement.dataset.busy;
}

export class Load<T> {
  data = $state.raw<T | undefined>();
  problem = $state.raw<Problem | undefined>();
  /** When the data was answered, in milliseconds of this browser. */
  at = $state(0);
  loading = $state(false);
  /** Whether the first answer takes so long that a placeholder is due. */
  slow = $state(false);
  #asked = 0;
  #abort: AbortController | undefined;

  constructor(private readonly ask: (signal: AbortSignal) => Promise<T>) {}

  /** Asks now. A newer question makes an older answer worthless. */
  async now(): Promise<void> {
    const asked = ++this.#asked;
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.loading = true;
    count(1);
    const timer = setTimeout(() => (this.slow = this.data === undefined), 200);
    try {
      // What the question reads must not make the caller's effect ask again.
      const data = await untrack(() => this.ask(abort.signal));
      if (asked !== this.#asked) return;
      this.data = data;
      this.problem = undefined;
      this.at = Date.now();
    } catch (error) {
      if (asked !== this.#asked || abort.signal.aborted) return;
      this.problem = asProblem(error);
    } finally {
      count(-1);
      clearTimeout(timer);
      if (asked === this.#asked) {
        this.loading = false;
        this.slow = false;
      }
    }
  }

  /** Stops what is under way. */
  stop(): void {
    this.#asked += 1;
    this.#abort?.abort();
    this.loading = false;
  }
}

type Page<T> = { data: T[]; next_cursor?: string | null };

/** A list that grows by pages. A refetch reads as many rows as are shown, at most `MAX`. */
/** `P` is what a page has besides its items. */
export class PagedLoad<T, P extends object = object> extends Load<Page<T> & P> {
  constructor(ask: (cursor: string | undefined, limit: number, signal: AbortSignal) => Promise<Page<T> & P>) {
    super((signal) => ask(undefined, Math.min(Math.max(this.data?.data.length ?? 0, 50), 500), signal));
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
