// Server-sent events read with fetch, which sees the status of an answer and can go on after an
// event that was seen.

import { tenantHeader } from '../route/tenant.ts';

export type StreamEvent = { event: string; id: string; data: string };

/** Reads events until the stream ends. Throws when there is no stream. */
export async function readEvents(
  url: string,
  lastId: string | undefined,
  signal: AbortSignal,
  on: (event: StreamEvent) => void,
  onOpen: () => void,
): Promise<void> {
  const headers: Record<string, string> = { accept: 'text/event-stream', ...tenantHeader };
  if (lastId) headers['last-event-id'] = lastId;
  const response = await fetch(url, { headers, signal, credentials: 'same-origin' });
  if (!response.ok || !response.body) throw new StreamRefused(response.status);
  onOpen();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event = { event: 'message', id: '', data: [] as string[] };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        if (event.data.length) on({ ...event, data: event.data.join('\n') });
        event = { event: 'message', id: '', data: [] };
        continue;
      }
      if (line.startsWith(':')) {
        on({ event: 'keep-alive', id: '', data: '' });
        continue;
      }
      const colon = line.indexOf(':');
      const name = colon < 0 ? line : line.slice(0, colon);
      const text = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
      if (name === 'data') event.data.push(text);
      else if (name === 'event') event.event = text;
      else if (name === 'id') event.id = text;
    }
  }
}

export class StreamRefused extends Error {
  constructor(readonly status: number) {
    super(`stream refused with status ${status}`);
  }
}
