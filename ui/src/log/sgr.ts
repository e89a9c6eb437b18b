// Colours of terminals: a line becomes runs of text with a class or a colour. Every other escape
// sequence is dropped, and characters that cannot be seen are made visible, so that an output
// shows what it contains.

export type TextRun = { text: string; classes: string; color?: string | undefined; background?: string | undefined };

type Look = { fg?: number | string | undefined; bg?: number | string | undefined; inverse?: boolean; bold: boolean; dim: boolean; italic: boolean; underline: boolean };

const PLAIN: Look = { bold: false, dim: false, italic: false, underline: false };
// CSI sequences, OSC sequences up to their end, and single escapes.
const ESCAPE = /\x1b(?:\[([0-9;:]*)([\x20-\x2f]*[\x40-\x7e])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x20-\x2f]*[\x30-\x7e])/g;
const UNSEEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

/** Keeps colours from one line to the next. */
export class Sgr {
  #look: Look = { ...PLAIN };

  line(text: string): TextRun[] {
    // A progress bar writes over itself: what was written last is what was seen.
    const last = text.replace(/\r+$/, '');
    const shown = last.slice(last.lastIndexOf('\r') + 1);
    const runs: TextRun[] = [];
    let from = 0;
    ESCAPE.lastIndex = 0;
    for (let match = ESCAPE.exec(shown); match; match = ESCAPE.exec(shown)) {
      this.#push(runs, shown.slice(from, match.index));
      from = match.index + match[0].length;
      if (match[2] === 'm') this.#apply(match[1] ?? '');
    }
    this.#push(runs, shown.slice(from));
    return runs;
  }

  #push(runs: TextRun[], text: string): void {
    if (!text) return;
    const { bold, dim, italic, underline, inverse } = this.#look;
    const [fg, bg] = inverse ? [this.#look.bg ?? 'var(--log-bg)', this.#look.fg ?? 'var(--text)'] : [this.#look.fg, this.#look.bg];
    const classes = [
      typeof fg === 'number' ? `sgr-${fg}` : '',
      bold ? 'sgr-bold' : '', dim ? 'sgr-dim' : '', italic ? 'sgr-italic' : '', underline ? 'sgr-under' : '',
    ].filter(Boolean).join(' ');
    const visible = text.replace(UNSEEN, visibleName);
    const run: TextRun = { text: visible, classes };
    if (typeof fg === 'string') run.color = fg;
    // A text of the usual colour on a coloured ground stays readable.
    if (bg !== undefined) run.background = typeof bg === 'number' ? `color-mix(in srgb, var(--sgr-${bg}) ${inverse ? 100 : 30}%, transparent)` : bg;
    runs.push(run);
  }

  #apply(codes: string): void {
    const list = codes.split(/[;:]/).map((it) => Number(it || '0'));
    for (let i = 0; i < list.length; i++) {
      const code = list[i] ?? 0;
      if (code === 0) this.#look = { ...PLAIN };
      else if (code === 1) this.#look.bold = true;
      else if (code === 2) this.#look.dim = true;
      else if (code === 3) this.#look.italic = true;
      else if (code === 4) this.#look.underline = true;
      else if (code === 7) this.#look.inverse = true;
      else if (code === 27) this.#look.inverse = false;
      else if (code === 22) this.#look.bold = this.#look.dim = false;
      else if (code === 23) this.#look.italic = false;
      else if (code === 24) this.#look.underline = false;
      else if (code >= 30 && code <= 37) this.#look.fg = code - 30;
      else if (code >= 90 && code <= 97) this.#look.fg = code - 82;
      else if (code === 39) this.#look.fg = undefined;
      else if (code >= 40 && code <= 47) this.#look.bg = code - 40;
      else if (code >= 100 && code <= 107) this.#look.bg = code - 92;
      else if (code === 49) this.#look.bg = undefined;
      else if (code === 38 || code === 48) {
        const [color, used] = extended(list, i + 1);
        if (color !== undefined) this.#look[code === 38 ? 'fg' : 'bg'] = color;
        i += used;
      }
    }
  }
}

/** A colour of 256, or one of red, green and blue; and how many numbers it took. */
function extended(list: number[], at: number): [number | string | undefined, number] {
  if (list[at] === 5) {
    const n = list[at + 1] ?? 0;
    if (n < 16) return [n, 2];
    if (n >= 232) return [rgb(8 + (n - 232) * 10, 8 + (n - 232) * 10, 8 + (n - 232) * 10), 2];
    const part = (k: number) => (k === 0 ? 0 : 55 + k * 40);
    const m = n - 16;
    return [rgb(part(Math.floor(m / 36)), part(Math.floor(m / 6) % 6), part(m % 6)), 2];
  }
  if (list[at] === 2) return [rgb(list[at + 1] ?? 0, list[at + 2] ?? 0, list[at + 3] ?? 0), 4];
  return [undefined, 1];
}

function rgb(r: number, g: number, b: number): string {
  const part = (n: number) => Math.max(0, Math.min(255, Math.round(n)));
  return `rgb(${part(r)} ${part(g)} ${part(b)})`;
}

function visibleName(character: string): string {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '\u2421';
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, '0')}⟩`;
}

/** What a line has shown one after the other, without colours: a progress bar writes over itself. */
export function segments(line: string): string[] {
  return line.replace(/\r+$/, '').split('\r').map((it) => new Sgr().line(it).map((run) => run.text).join(''));
}

/** Puts a run of text into the page. */
export function drawn(run: TextRun): Node {
  if (!run.classes && !run.color && !run.background) return document.createTextNode(run.text);
  const span = document.createElement('span');
  span.className = run.classes;
  span.textContent = run.text;
  if (run.color) span.style.color = run.color;
  if (run.background) span.style.background = run.background;
  return span;
}
