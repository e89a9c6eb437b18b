// What the page shows, as a request and as a command line.

import { root } from '../api/client.ts';
import { router } from '../route/router.svelte.ts';

/** The page, its list in the API, and its noun on the command line. */
const PLACES: Record<string, [api: string, noun: string]> = {
  jobs: ['jobs', 'job'], runs: ['executions', 'run'], workflows: ['dags', 'dag'], queues: ['queues', 'queue'],
  cluster: ['nodes', 'node'], audit: ['audit', 'audit'], 'dead-letters': ['dead-letters', 'dlq'],
};

export function quoted(text: string): string {
  return /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Both texts; none where the page is more than one answer of the API. */
export function copyAs(): [request: string, command: string] | undefined {
  const [page = '', id = '', tab] = router.path.split('/');
  const [given = ''] = Object.values(router.params);
  const place = PLACES[page];
  if (!place) return undefined;
  const name = quoted(given);
  const address = `${location.origin}${root}/v1/${place[0]}${id ? `/${id}` : ''}${tab === 'history' ? '/executions' : ''}`;
  const command = tab === 'history' ? `run list ${name}` : id ? `${place[1]} show ${name}` : `${place[1]} list`;
  return [`curl -H "Authorization: Bearer $PUNCTUAL_TOKEN" ${quoted(address)}`, `punctual ${command}`];
}
