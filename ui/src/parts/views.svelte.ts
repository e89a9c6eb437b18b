// Saved views of the user, kept by the server.

import { api, data } from '../api/client.ts';

export type View = { page: string; name: string; query: string };

const isView = (it: unknown): it is View => typeof it === 'object' && it !== null && ['page', 'name', 'query'].every((key) => typeof (it as Record<string, unknown>)[key] === 'string');

class Views {
  list = $state.raw<View[]>([]);
  #rest: Record<string, unknown> = {};
  #version = 0;

  async load(): Promise<void> {
    const { values, version } = await data(api.GET('/v1/whoami/preferences'));
    const { views, ...rest } = values as Record<string, unknown>;
    this.#rest = rest;
    this.#version = version;
    this.list = Array.isArray(views) ? views.filter(isView) : [];
  }

  /** Another tab may have saved something else meanwhile: the server says so, and nothing is lost. */
  async save(views: View[]): Promise<void> {
    const header = this.#version ? { 'If-Match': `"${this.#version}"` } : {};
    const { version } = await data(api.PUT('/v1/whoami/preferences', { params: { header }, body: { values: { ...this.#rest, views } as never } }));
    this.#version = version;
    this.list = views;
  }
}

export const views = new Views();
