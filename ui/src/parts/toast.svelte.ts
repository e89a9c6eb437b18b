// Short confirmations with a link to what was made. No error is told here alone.

export type Toast = { id: number; text: string; href?: string; link?: string };

class Toasts {
  list = $state<Toast[]>([]);
  #next = 1;

  say(text: string, link?: string, href?: string): void {
    const id = this.#next++;
    this.list.push({ id, text, href, link });
    setTimeout(() => this.drop(id), 10_000);
  }

  drop(id: number): void {
    this.list = this.list.filter((it) => it.id !== id);
  }
}

export const toasts = new Toasts();
