// Short confirmations with a link to what was made. No error is told here alone.

export type Toast = { id: number; text: string; href?: string; link?: string; act?: () => void };

class Toasts {
  list = $state<Toast[]>([]);
  #next = 1;

  say(text: string, link?: string, href?: string, act?: () => void): void {
    const id = this.#next++;
    this.list = [...this.list.slice(-2), { id, text, href, link, act }];
    // A link is there until it is used or closed: a reader may need longer than any timer allows.
    if (!href) setTimeout(() => this.drop(id), 10_000);
  }

  drop(id: number): void {
    this.list = this.list.filter((it) => it.id !== id);
  }
}

export const toasts = new Toasts();
