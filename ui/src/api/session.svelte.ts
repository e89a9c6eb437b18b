// Who is logged in, and what they may do.

import { api, data, onUnauthorized, type Schema } from './client.ts';
import { asProblem, Problem } from './problem.ts';
import { clock } from '../time/clock.svelte.ts';
import { forgetAnswers } from './load.svelte.ts';

type Identity = Schema['Whoami'];

class Session {
  state = $state<'unknown' | 'in' | 'out'>('unknown');
  identity = $state.raw<Identity | undefined>();
  environment = $state<string | undefined>();
  version = $state('');
  /** Issuers at which a browser can log in. */
  logins = $state.raw<Schema['LoginView'][]>([]);
  /** Whether the session ended while a page was open: the page stays behind the login. */
  ended = $state(false);
  problem = $state.raw<Problem | undefined>();

  constructor() {
    onUnauthorized(() => {
      if (this.state === 'in') this.ended = true;
    });
  }

  async load(): Promise<void> {
    try {
      const view = await data(api.GET('/v1/session'));
      clock.observe(view.now);
      this.version = view.version;
      this.logins = view.logins;
      this.environment = view.environment ?? undefined;
      this.identity = view.identity ?? undefined;
      this.state = view.identity ? 'in' : 'out';
      if (view.identity) this.ended = false;
      this.problem = undefined;
    } catch (error) {
      this.problem = asProblem(error);
    }
  }

  async open(body: Schema['SessionBody']): Promise<void> {
    await data(api.POST('/v1/session', { body }));
    forgetAnswers();
    await this.load();
    if (this.problem) throw this.problem;
    if (!this.identity) {
      throw new Problem(0, 'NO_COOKIE', 'this browser keeps no session of this address: use HTTPS, or allow cookies');
    }
  }

  async close(): Promise<void> {
    await data(api.DELETE('/v1/session'));
    forgetAnswers();
    // Text of a form that was not saved is the user's.
    sessionStorage.clear();
    this.identity = undefined;
    this.state = 'out';
  }

  /** The end of every title: tabs of different environments differ. */
  get appName(): string {
    return this.environment ? `Punctual ${this.environment}` : 'Punctual';
  }

  has(privilege: string): boolean {
    const identity = this.identity;
    return !!identity && identity.privileges.includes(privilege);
  }

  /** Whether something that changes may be offered at all. */
  may(privilege: string): boolean {
    return this.has(privilege) && !this.identity?.read_only;
  }
}

export const session = new Session();

/** The title of a page, for the life of its component. */
export function titled(text: () => string): void {
  $effect(() => {
    document.title = `${text()} · ${session.appName}`;
  });
}
