// The one way to the API. Answers are data or a thrown `Problem`, never undefined.

import createClient, { type Middleware } from 'openapi-fetch';
import { clock } from '../time/clock.svelte.ts';
import { tenantHeader, uiBase } from '../route/tenant.ts';
import { problemOf } from './problem.ts';
import type { components, paths } from './schema.d.ts';

export type Schema = components['schemas'];
export type Job = Schema['JobView'];
export type JobSpec = Schema['JobSpec'];
export type Run = Schema['Execution'];
export type Attempt = Schema['Attempt'];

/** Where the API is: beside the dashboard, whatever a proxy puts before both. */
export const root = new URL('..', new URL(uiBase, location.href)).pathname.replace(/\/$/, '');

let unauthorized: (() => void) | undefined;

/** Calls back when the server does not accept the session any more. */
export function onUnauthorized(then: () => void): void {
  unauthorized = then;
}

/** While a page refreshes itself, it takes an answer that the server has given to another page a moment ago. */
let isRefresh = false;

export function refreshing<T>(ask: () => T): T {
  isRefresh = true;
  try {
    return ask();
  } finally {
    isRefresh = false;
  }
}

const checks: Middleware = {
  onRequest({ request }) {
    if (isRefresh && request.method === 'GET') request.headers.set('cache-control', 'max-age=2');
    for (const [name, value] of Object.entries(tenantHeader)) request.headers.set(name, value);
  },
  onResponse({ response, request }) {
    clock.observe(response.headers.get('date'));
    if (response.status === 401 && !request.url.endsWith('/v1/session')) unauthorized?.();
  },
};

export const api = createClient<paths>({ baseUrl: root, credentials: 'same-origin' });
api.use(checks);

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** The data of an answer. */
export async function data<T>(asked: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await asked;
  if (!response.ok) throw problemOf(response, error);
  return data as T;
}

/** A key under which a request may be sent again without doing its work twice. */
export function idempotencyKey(): string {
  return crypto.randomUUID?.() ?? `${Date.now()}-${Math.random().toString(36).slice(2)}`;
}
