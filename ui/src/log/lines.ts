// An output as real lines of the page, in blocks that the browser lays out when they are seen:
// its own search, selection and copying work.

import { size } from '../time/format.ts';
import { drawn, Sgr } from './sgr.ts';

export const LINES_MAX = 50_000;
const BLOCK = 200;
const LINE_CHARS_MAX = 4096;
const PER_FRAME = 2000;
/** The line that the server writes in place of what it left out. */
const CUT = /^\[\.\.\. (\d+) bytes left out \.\.\.\]$/;

export class LogLines {
  /** The text of each line without colours. */
  texts: string[] = [];
  isCut = false;
  #rest = '';
  #queue: string[] = [];
  #sgr = new Sgr();
  #block: HTMLElement | undefined;
  #frame = 0;
  #open: HTMLElement | undefined;

  constructor(
    private readonly into: HTMLElement,
    private readonly onchange: () => void,
  ) {}

  /** Adds text as it comes. */
  add(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#queue.push(line);
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  /** The output has ended: a last line without an end is one too. */
  end(): void {
    if (this.#rest) this.#queue.push(this.#rest);
    this.#rest = '';
    this.#plan();
  }

  /** Whether a line is shown that has no end yet. */
  get isOpen(): boolean {
    return !!this.#open;
  }

  /** Whether lines wait to be drawn. */
  get isBusy(): boolean {
    return this.#queue.length > 0;
  }

  clear(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.#queue = [];
    this.#rest = '';
    this.texts = [];
    this.isCut = false;
    this.#block = this.#open = undefined;
    this.#sgr = new Sgr();
    this.into.replaceChildren();
  }

  element(line: number): HTMLElement | undefined {
    const block = this.into.children[Math.floor(line / BLOCK)];
    return block?.children[line % BLOCK] as HTMLElement | undefined;
  }

  #plan(): void {
    if (!this.#frame && this.#queue.length) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw(): void {
    this.#frame = 0;
    this.#open?.remove();
    this.#open = undefined;
    for (const line of this.#queue.splice(0, PER_FRAME)) {
      if (this.texts.length >= LINES_MAX) {
        this.isCut = true;
        this.#queue = [];
        break;
      }
      this.#append(line);
    }
    // A line that has no end yet is shown as it is: it may be a progress bar.
    if (!this.#queue.length && this.#rest && !this.isCut) {
      this.#open = document.createElement('span');
      this.#open.className = 'line';
      for (const run of new Sgr().line(this.#rest.slice(-LINE_CHARS_MAX))) this.#open.append(drawn(run));
      this.into.append(this.#open);
    }
    this.onchange();
    this.#plan();
  }

  #append(line: string): void {
    const number = this.texts.length;
    if (number % BLOCK === 0) {
      // A block that is full is laid out when it is seen; the last one has its own height at once.
      this.#block?.classList.add('full');
      this.#block = document.createElement('div');
      this.#block.className = 'block';
      this.into.append(this.#block);
    }
    const isLong = line.length > LINE_CHARS_MAX;
    const omitted = CUT.exec(line)?.[1];
    const runs = omitted
      ? [{ text: `${size(Number(omitted))} left out: the first and the last part of an output are kept`, classes: '' }]
      : this.#sgr.line(isLong ? line.slice(0, LINE_CHARS_MAX) : line);
    if (isLong) runs.push({ text: ` … ${line.length - LINE_CHARS_MAX} more characters`, classes: 'sgr-dim' });
    const element = document.createElement('span');
    element.className = omitted ? 'line cut' : 'line';
    element.dataset.n = String(number + 1);
    for (const run of runs) element.append(drawn(run));
    this.#block?.append(element);
    this.texts.push(runs.map((run) => run.text).join(''));
  }
}

/** The lines that contain a text, whatever the case of its letters. */
export function findLines(texts: string[], wanted: string): number[] {
  const small = wanted.toLowerCase();
  const hits: number[] = [];
  if (small) texts.forEach((text, i) => text.toLowerCase().includes(small) && hits.push(i));
  return hits;
}
