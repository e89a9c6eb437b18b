// The lines of a large output: where they begin is known from the index of the server, and what is
// looked at is read in blocks of about a thousand lines.

import { api, data, root, type Schema } from '../api/client.ts';
import { problemOf } from '../api/problem.ts';
import { tenantHeader } from '../route/tenant.ts';

type Mark = Schema['LogMark'];
export type Cut = Schema['LogCut'];
export type Which = { run: string; attempt: number; stream: string };

/** How many blocks are kept, and how much of a block is read: lines may be very long. */
const BLOCKS_MAX = 64;
const BLOCK_BYTES_MAX = 512 * 1024;

/** The last mark at or before a line. */
export function blockOf(marks: Mark[], line: number): number {
  let [low, high] = [0, marks.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((marks[middle]?.line ?? 0) <= line) low = middle;
    else high = middle - 1;
  }
  return low;
}

export class LogBlocks {
  marks: Mark[] = [];
  cuts = new Map<number, Cut>();
  lines = 0;
  total = 0;
  omitted = 0;
  /** How far the index reaches. */
  known = 0;
  isFinal = false;
  #texts = new Map<number, string[]>();
  #asked = new Set<number>();

  constructor(
    private readonly which: Which,
    private readonly onchange: () => void,
    private readonly signal: AbortSignal,
  ) {}

  get #query() {
    return { attempt: this.which.attempt, stream: this.which.stream || undefined };
  }
  get #path() {
    return { execution_id: this.which.run };
  }

  /** Reads the index, or what is new of it. */
  async index(): Promise<void> {
    let at: Mark | undefined = this.marks.at(-1);
    for (;;) {
      const query = { ...this.#query, ...(at ? { from: at.position, line: at.line } : {}) };
      const page = await data(api.GET('/v1/executions/{execution_id}/logs/index', { params: { path: this.#path, query }, signal: this.signal }));
      if (at && page.omitted !== this.omitted) {
        // What was left out has grown: older marks may not be there any more.
        this.marks = [];
        this.cuts.clear();
        this.#texts.clear();
        this.omitted = page.omitted;
        at = undefined;
        continue;
      }
      const last = at?.line ?? -1;
      this.marks.push(...page.marks.filter((it) => it.line > last));
      for (const cut of page.cuts) this.cuts.set(cut.line, cut);
      this.#texts.delete(this.marks.length - 1);
      if (at) this.#texts.delete(blockOf(this.marks, at.line));
      [this.lines, this.total, this.omitted, this.isFinal] = [page.lines, page.total, page.omitted, page.is_final];
      this.known = page.next_from ?? page.total;
      this.onchange();
      if (page.next_from === undefined || page.next_from === null) return;
      at = { position: page.next_from, line: page.next_line ?? 0 };
    }
  }

  /** A line, if it was read; otherwise its block is asked for. */
  text(line: number): string | undefined {
    const block = blockOf(this.marks, line);
    const mark = this.marks[block];
    if (!mark) return undefined;
    const known = this.#texts.get(block);
    if (!known) {
      if (!this.#asked.has(block)) void this.#read(block);
      return undefined;
    }
    return known[line - mark.line] ?? '';
  }

  async #read(block: number): Promise<void> {
    const [mark, next] = [this.marks[block], this.marks[block + 1]];
    if (!mark) return;
    this.#asked.add(block);
    try {
      const url = `${root}/v1/executions/${encodeURIComponent(this.which.run)}/logs?attempt=${this.which.attempt}${this.which.stream ? `&stream=${this.which.stream}` : ''}`;
      const decoder = new TextDecoder();
      let [text, size, from] = ['', 0, mark.position];
      const until = next?.position ?? this.total;
      while (from < until && size < BLOCK_BYTES_MAX) {
        const range = `bytes=${from}-${Math.min(until, from + BLOCK_BYTES_MAX) - 1}`;
        const response = await fetch(url, { signal: this.signal, credentials: 'same-origin', headers: { ...tenantHeader, range } });
        if (!response.ok) throw problemOf(response, await response.json().catch(() => undefined));
        const bytes = await response.arrayBuffer();
        text += decoder.decode(bytes, { stream: true });
        size += bytes.byteLength;
        const reached = Number(response.headers.get('punctual-log-next'));
        if (reached <= from) break;
        from = reached;
      }
      this.#texts.set(block, text.split('\n').slice(0, (next?.line ?? this.lines) - mark.line));
      const oldest = this.#texts.keys().next().value;
      if (this.#texts.size > BLOCKS_MAX && oldest !== undefined) this.#texts.delete(oldest);
    } finally {
      this.#asked.delete(block);
      if (!this.signal.aborted) this.onchange();
    }
  }
}
