// What happens on the server, as it happens. One tab of a browser reads the stream and tells the
// others: a browser opens six connections to a host over HTTP/1.1, and a log needs one too.

import { refreshing, root } from './client.ts';
import { readEvents, StreamRefused } from './sse.ts';
import { session } from './session.svelte.ts';
import { tenant } from '../route/tenant.ts';

export type Happened =
  | { kind: 'execution'; job: string; run: string; status: string }
  | { kind: 'job'; job: string; name: string }
  /** Something may have been missed. */
  | { kind: 'resync' };

type Told = Happened | { kind: 'state'; live: boolean };

/** Three keep-alives of the server. */
const SILENCE_MS = 45_000;
const WAIT_MAX_MS = 15_000;
/** A stream that was open so long and ends was cut by a proxy, which allows requests a minute or so. */
const OPEN_MS = 2_000;
/** It is lost if another one is not open after this. */
const REOPEN_MS = 3_000;
/** Pages of different tenants hear different things. */
const NAME = tenant === undefined ? 'punctual-events' : `punctual-events ${tenant}`;

class Live {
  state = $state<'off' | 'live' | 'waiting' | 'paused'>('off');
  /** Since when there is no stream. */
  lostAt = $state(0);
  #listeners = new Set<(what: Happened) => void>();
  #channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel(NAME) : undefined;
  #stop: AbortController | undefined;
  #lastId: string | undefined;
  #missed = false;

  /** Tells the caller what happens until the returned function is called. */
  on(listener: (what: Happened) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start(): void {
    if (this.#stop) return;
    const stop = new AbortController();
    this.#stop = stop;
    this.state = 'waiting';
    if (this.#channel) this.#channel.onmessage = (event: MessageEvent<Told>) => this.#hear(event.data);
    document.addEventListener('visibilitychange', () => this.#seen(), { signal: stop.signal });
    addEventListener('online', () => this.#hurry?.(), { signal: stop.signal });
    const read = () => this.#read(stop.signal);
    if (navigator.locks && this.#channel) {
      navigator.locks
        .request(NAME, { signal: stop.signal }, read)
        .catch(() => undefined);
      // Another tab has the stream until this one gets the lock.
      navigator.locks
        .query()
        .then(({ held }) => {
          const isElsewhere = held?.some((it) => it.name === NAME);
          if (isElsewhere && this.state === 'waiting' && !this.#reading) this.state = 'live';
        })
        .catch(() => undefined);
    } else void read();
  }

  end(): void {
    this.#stop?.abort();
    this.#stop = undefined;
    this.state = 'off';
  }

  /** Stops all updates, or lets them go on. */
  togglePause(): void {
    if (this.state === 'paused') {
      this.state = this.#connected ? 'live' : 'waiting';
      this.#tell({ kind: 'resync' });
    } else this.state = 'paused';
  }

  #reading = false;
  #connected = false;
  #hurry: (() => void) | undefined;

  async #read(signal: AbortSignal): Promise<void> {
    this.#reading = true;
    let wait = 500;
    // Set while a stream that was cut is opened again; the pages learn of it only if that fails.
    let reopening: ReturnType<typeof setTimeout> | undefined;
    const lost = () => {
      clearTimeout(reopening);
      reopening = undefined;
      this.#spread({ kind: 'state', live: false });
    };
    while (!signal.aborted) {
      const connection = new AbortController();
      const abort = () => connection.abort();
      signal.addEventListener('abort', abort);
      let silence = setTimeout(abort, SILENCE_MS);
      let openedAt = 0;
      try {
        await readEvents(
          `${root}/v1/events`,
          this.#lastId,
          connection.signal,
          (event) => {
            clearTimeout(silence);
            silence = setTimeout(abort, SILENCE_MS);
            if (event.id) this.#lastId = event.id;
            const what = happened(event.event, event.data);
            if (what) this.#spread(what);
          },
          () => {
            openedAt = Date.now();
            const isSame = reopening !== undefined && this.#lastId !== undefined;
            clearTimeout(reopening);
            reopening = undefined;
            this.#spread({ kind: 'state', live: true });
            // A stream that goes on after the last event has missed nothing.
            if (!isSame) this.#spread({ kind: 'resync' });
          },
        );
      } catch (error) {
        if (error instanceof StreamRefused && error.status === 401) session.ended = session.state === 'in';
        if (error instanceof StreamRefused && error.status === 400) this.#lastId = undefined;
      } finally {
        clearTimeout(silence);
        signal.removeEventListener('abort', abort);
      }
      if (signal.aborted) break;
      const wasOpen = openedAt > 0 && Date.now() - openedAt > OPEN_MS;
      if (wasOpen) reopening = setTimeout(lost, REOPEN_MS);
      else lost();
      wait = wasOpen ? 250 : Math.min(wait * 2, WAIT_MAX_MS);
      await new Promise<void>((done) => {
        const timer = setTimeout(done, wait * (0.5 + Math.random() / 2));
        this.#hurry = () => {
          clearTimeout(timer);
          done();
        };
      });
      this.#hurry = undefined;
    }
    clearTimeout(reopening);
    this.#reading = false;
  }

  /** Tries at once instead of waiting. */
  tryNow(): void {
    this.#hurry?.();
  }

  #spread(what: Told): void {
    this.#channel?.postMessage(what);
    this.#hear(what);
  }

  #hear(what: Told): void {
    if (what.kind === 'state') {
      this.#connected = what.live;
      if (this.state === 'paused') return;
      if (!what.live && this.state === 'live') this.lostAt = Date.now();
      this.state = what.live ? 'live' : 'waiting';
      return;
    }
    if (!this.#connected) {
      this.#connected = true;
      if (this.state === 'waiting') this.state = 'live';
    }
    // A hidden page asks once when it is seen again.
    if (document.hidden) this.#missed = true;
    else this.#tell(what);
  }

  #seen(): void {
    this.#hurry?.();
    if (document.hidden || !this.#missed) return;
    this.#missed = false;
    this.#tell({ kind: 'resync' });
  }

  #tell(what: Happened): void {
    if (this.state !== 'paused') for (const listener of this.#listeners) listener(what);
  }
}

function happened(kind: string, text: string): Happened | undefined {
  try {
    const it = JSON.parse(text) as Record<string, string>;
    if (kind === 'execution')
      return { kind, job: it.job_id ?? '', run: it.execution_id ?? '', status: it.status ?? '' };
    if (kind === 'job') return { kind, job: it.job_id ?? '', name: it.name ?? '' };
  } catch {
    // A keep-alive carries nothing.
  }
  return undefined;
}

export const live = new Live();

/**
 * Asks again when something happened that `concerns` it, at most once a second, and every
 * `everyMs` besides. For use in `$effect`: returns what stops it.
 */
export function keepFresh(
  ask: () => Promise<void>,
  concerns: (what: Happened) => boolean,
  everyMs: () => number = () => 30_000,
): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = Date.now();
  let over = false;
  const run = async () => {
    timer = undefined;
    if (over) return;
    last = Date.now();
    if (live.state !== 'paused' && !document.hidden) await refreshing(ask);
    plan(everyMs());
  };
  const plan = (ms: number) => {
    if (over) return;
    clearTimeout(timer);
    timer = setTimeout(() => void run(), ms);
  };
  const off = live.on((what) => {
    if (what.kind === 'resync' || concerns(what)) plan(Math.max(150, last + 1000 - Date.now()));
  });
  plan(everyMs());
  return () => {
    over = true;
    clearTimeout(timer);
    off();
  };
}
