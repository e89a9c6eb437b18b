// The filter of the jobs list: words are a part of the name, `status:`, `last:`, `tag:`, `kind:` and
// `action:` are what they say. It is the query of the address, so that a filtered list is a link.

export type JobQuery = { q?: string; status?: string; last?: string; tag?: string; kind?: string; action?: string; sort?: string };

const STATUSES = ['ACTIVE', 'PAUSED', 'DISABLED', 'COMPLETED'];
const KINDS = ['CRON', 'ONE_TIME', 'INTERVAL', 'MANUAL', 'DEPENDENT'];
const ACTIONS = ['HTTP', 'SQL', 'PROCEDURE', 'EXTERNAL', 'QUEUE', 'BACKUP', 'NOOP'];
export const LAST = ['COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED'];
/** The columns that the server sorts by. */
export const SORTS = ['name', 'last', 'next'];
const KNOWN: Record<string, string[]> = { status: STATUSES, last: LAST, kind: KINDS, action: ACTIONS, sort: SORTS };

/** What was typed, as a query. */
export function parseFilter(text: string): JobQuery {
  const query: JobQuery = {};
  const words: string[] = [];
  for (const word of text.trim().split(/\s+/)) {
    const [, name, value] = /^(status|last|tag|kind|action):(.+)$/i.exec(word) ?? [];
    if (name && value) {
      const key = name.toLowerCase() as 'status' | 'last' | 'tag' | 'kind' | 'action';
      query[key] = key === 'tag' ? value : value.toUpperCase();
    } else if (word) words.push(word);
  }
  if (words.length) query.q = words.join(' ');
  return query;
}

/** A query as it would be typed. */
export function filterText(query: JobQuery): string {
  const named = (['status', 'last', 'kind', 'action', 'tag'] as const)
    .filter((key) => query[key])
    .map((key) => `${key}:${key === 'tag' ? query[key] : query[key]?.toLowerCase()}`);
  return [query.q, ...named].filter(Boolean).join(' ');
}

/** The query of an address. What the server does not know is left out and named. */
export function readQuery(params: URLSearchParams): { query: JobQuery; ignored: string[] } {
  const query: JobQuery = {};
  const ignored: string[] = [];
  for (const key of ['q', 'status', 'last', 'tag', 'kind', 'action', 'sort'] as const) {
    const value = params.get(key);
    if (!value) continue;
    const known = KNOWN[key];
    const fits = !known || value.split(',').every((it) => known.includes(it));
    if (fits) query[key] = value;
    else ignored.push(`${key}=${value}`);
  }
  return { query, ignored };
}
