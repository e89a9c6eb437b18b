// The server's time, as far as this browser knows it, and a tick once a second while visible.

class Clock {
  /** Milliseconds that the server is ahead of this browser. */
  offset = $state(0);
  now = $state(Date.now());
  #known: number[] = [];

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now() + this.offset;
    }, 1000);
    document.addEventListener('visibilitychange', () => (this.now = Date.now() + this.offset));
  }

  /** Learns from a time that the server has just written: the median of the last five counts. */
  observe(text: string | null | undefined): void {
    const at = text ? Date.parse(text) : NaN;
    if (Number.isNaN(at)) return;
    // A date of HTTP has whole seconds: its middle is the best guess.
    const isHttpDate = text?.endsWith('GMT');
    this.#known = [...this.#known.slice(-4), at + (isHttpDate ? 500 : 0) - Date.now()];
    const sorted = [...this.#known].sort((a, b) => a - b);
    const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
    // Less than a second may be the way of the answer.
    this.offset = Math.abs(median) < 1000 ? 0 : median;
  }
}

export const clock = new Clock();
