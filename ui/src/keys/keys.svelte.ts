// Keys: letters act only outside of fields and dialogs, and none changes anything by itself.

type Act = () => void;
export type KeyHelp = { keys: string; text: string };

const STORED = 'punctual-letters';

class Keys {
  #areLettersOn = $state(lettersOn());

  /** What works on this page, for the help. */
  page = $state.raw<KeyHelp[]>([]);
  #acts = new Map<string, Act>();
  #globals = new Map<string, Act>();
  #first = '';
  #firstAt = 0;

  /** Whether single letters act. People who dictate, or type by accident, switch them off. */
  get areLettersOn(): boolean {
    return this.#areLettersOn;
  }

  set areLettersOn(isOn: boolean) {
    this.#areLettersOn = isOn;
    try {
      localStorage.setItem(STORED, isOn ? 'on' : 'off');
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }

  constructor() {
    addEventListener('keydown', (event) => this.#press(event));
  }

  /** Keys of the whole application. */
  everywhere(acts: Record<string, Act>): void {
    for (const [key, act] of Object.entries(acts)) this.#globals.set(key, act);
  }

  /** Keys of a page; returns what takes them away. For use in `$effect`. */
  on(acts: Record<string, { text: string; act: Act }>): () => void {
    this.#acts = new Map(Object.entries(acts).map(([key, it]) => [key, it.act]));
    this.page = Object.entries(acts).map(([keys, it]) => ({ keys, text: it.text }));
    return () => {
      this.#acts = new Map();
      this.page = [];
    };
  }

  /** Does what a key of the page does. */
  act(key: string): void {
    this.#acts.get(key)?.();
  }

  #press(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.altKey) return;
    const target = event.target as HTMLElement;
    const inField = /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable;
    if (event.ctrlKey || event.metaKey) {
      if (event.key.toLowerCase() === 'k') this.#run(this.#globals.get('Ctrl+K'), event);
      return;
    }
    if (inField || target.closest('dialog')) return;
    if (!this.#areLettersOn && event.key !== '?') return;
    const sequence = this.#first && event.timeStamp - this.#firstAt < 1500 ? `${this.#first} ${event.key}` : '';
    const act =
      this.#globals.get(sequence) ?? this.#acts.get(sequence) ?? this.#acts.get(event.key) ?? this.#globals.get(event.key);
    this.#first = act ? '' : event.key;
    this.#firstAt = event.timeStamp;
    this.#run(act, event);
  }

  #run(act: Act | undefined, event: KeyboardEvent): void {
    if (!act) return;
    event.preventDefault();
    act();
  }
}

function lettersOn(): boolean {
  try {
    return localStorage.getItem(STORED) !== 'off';
  } catch {
    return true;
  }
}

export const keys = new Keys();

/** Rows of a table by `j` and `k`: moves the focus between links that carry `data-row`. */
export function moveRow(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>('[data-row]')];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + step))]?.focus();
}

/** Chooses the row that has the focus, where rows can be chosen, or lets it go. */
export function chooseRow(): void {
  document.activeElement?.closest('tr')?.querySelector<HTMLInputElement>('[type="checkbox"]')?.click();
}

/** Puts the focus into the filter of the page. */
export function focusFilter(): void {
  document.querySelector<HTMLInputElement>('[data-filter]')?.focus();
}
