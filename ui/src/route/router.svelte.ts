// A router of segments over the History API. Links are plain `<a href>`: a click inside the base
// path is taken over, everything else is the browser's.

import type { Component } from 'svelte';
import './tenant.ts';

type Loaded = { default: Component<{ params: Record<string, string> }> };
export type Routes = Record<string, () => Promise<Loaded>>;

export const base = new URL(document.baseURI).pathname;

class Router {
  page = $state.raw<Loaded['default'] | undefined>();
  params = $state.raw<Record<string, string>>({});
  query = $state.raw(new URLSearchParams());
  path = $state('');
  /** Grows with each page that is shown. */
  visits = $state(0);
  #routes: Routes = {};
  #going = 0;

  start(routes: Routes): void {
    this.#routes = routes;
    history.scrollRestoration = 'manual';
    addEventListener('popstate', () => void this.#show(false));
    addEventListener('click', (event) => this.#click(event));
    void this.#show(true);
  }

  /** Goes to an address relative to the base. */
  go(href: string, how: 'push' | 'replace' = 'push'): void {
    const url = new URL(href, document.baseURI);
    if (how === 'push') {
      history.replaceState({ ...history.state, y: scrollY }, '');
      history.pushState({}, '', url);
    } else history.replaceState(history.state, '', url);
    void this.#show(how === 'push');
  }

  /** Changes parameters of this address; an empty one is taken away. */
  setQuery(changes: Record<string, string | undefined>, how: 'push' | 'replace' = 'replace'): void {
    const params = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value) params.set(name, value);
      else params.delete(name);
    }
    const text = params.toString();
    const href = location.pathname + (text ? `?${text}` : '');
    if (how === 'push') history.pushState({}, '', href);
    else history.replaceState(history.state, '', href);
    this.query = params;
  }

  #click(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest?.('a');
    if (!link || link.target || link.hasAttribute('download')) return;
    const url = new URL(link.href, document.baseURI);
    if (url.origin !== location.origin || !url.pathname.startsWith(base)) return;
    if (url.pathname === location.pathname && url.search === location.search && url.hash) return;
    event.preventDefault();
    this.go(url.href);
  }

  async #show(isNew: boolean): Promise<void> {
    const going = ++this.#going;
    const path = location.pathname.slice(base.length).replace(/\/$/, '');
    const found = match(this.#routes, path);
    const loaded = await found.load();
    if (going !== this.#going) return;
    const samePage = this.page === loaded.default && this.path === path;
    this.page = loaded.default;
    this.params = found.params;
    this.query = new URLSearchParams(location.search);
    this.path = path;
    if (samePage) return;
    this.visits += 1;
    const y = isNew ? 0 : ((history.state as { y?: number } | null)?.y ?? 0);
    requestAnimationFrame(() => scrollTo(0, y));
  }
}

function match(routes: Routes, path: string): { load: () => Promise<Loaded>; params: Record<string, string> } {
  const given = path.split('/').map(decode);
  for (const [pattern, load] of Object.entries(routes)) {
    const wanted = pattern.split('/');
    if (wanted.length !== given.length) continue;
    const params: Record<string, string> = {};
    const fits = wanted.every((part, i) => {
      const value = given[i] ?? '';
      if (!part.startsWith(':')) return part === value;
      params[part.slice(1)] = value;
      return value !== '';
    });
    if (fits) return { load, params };
  }
  return { load: routes['*'] as () => Promise<Loaded>, params: {} };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const router = new Router();
