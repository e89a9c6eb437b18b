// Whether the server has another build of the dashboard than the one that runs here.

import { live } from '../api/live.svelte.ts';
import { uiBase } from '../route/tenant.ts';

const SCRIPT = /assets\/index-[\w-]+\.js/;

class Update {
  isThere = $state(false);
  #mine = SCRIPT.exec(document.querySelector<HTMLScriptElement>('script[type="module"]')?.src ?? '')?.[0];

  /** Looks when the stream of events was opened again: a server that was updated was restarted. */
  watch(): () => void {
    return live.on((what) => {
      if (what.kind === 'resync' && this.#mine && !this.isThere) void this.#look();
    });
  }

  async #look(): Promise<void> {
    try {
      const response = await fetch(uiBase, { credentials: 'same-origin', cache: 'no-cache' });
      const served = response.ok ? SCRIPT.exec(await response.text())?.[0] : undefined;
      if (served && served !== this.#mine) this.isThere = true;
    } catch {
      // The next time that the stream opens, it looks again.
    }
  }
}

export const update = new Update();
