// The one way to the API. Answers are data or a thrown `Problem`, never undefined.

import type { Client } from 'openapi-fetch';
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

type Values = Record<string, unknown>;
type Options = { params?: { path?: Values; query?: Values; header?: Values }; body?: unknown; signal?: AbortSignal };

/** Sends a request; the types of `Client` say what it takes and answers. */
async function send(method: string, path: string, { params, body, signal }: Options = {}): Promise<Answer<unknown>> {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params?.path?.[name])));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params?.query ?? {})) if (value !== undefined && value !== null) query.set(name, String(value));
  const headers: Record<string, string> = { ...tenantHeader, ...(params?.header as Record<string, string>) };
  if (isRefresh && method === 'GET') headers['cache-control'] = 'max-age=2';
  if (body !== undefined) headers['content-type'] = 'application/json';
  const response = await fetch(`${root}${filled}${query.size ? `?${query}` : ''}`, {
    method, headers, signal: signal ?? null, credentials: 'same-origin', body: body === undefined ? null : JSON.stringify(body),
  });
  clock.observe(response.headers.get('date'));
  if (response.status === 401 && path !== '/v1/session') unauthorized?.();
  const text = await response.text();
  let answered: unknown;
  try {
    answered = text ? JSON.parse(text) : undefined;
  } catch {
    answered = text;
  }
  return response.ok ? { data: answered, response } : { error: answered, response };
}

export const api = Object.fromEntries(
  ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].map((method) => [method, (path: string, options?: Options) => send(method, path, options)]),
) as unknown as Client<paths>;

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
