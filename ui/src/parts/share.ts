// Copies the link to what is shown. A range that is relative to the present stays so; the message
// offers the same link with fixed times.

import { clock } from '../time/clock.svelte.ts';
import { instantOf } from '../time/range.ts';
import { toasts } from './toast.svelte.ts';

export async function copyText(text: string, said: string, more?: { text: string; act: () => void }): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toasts.say(said, more?.text, undefined, more?.act);
  } catch {
    toasts.say('The browser did not allow copying: take the link from its address bar.');
  }
}

export function copyLink(): Promise<void> {
  const url = new URL(location.href);
  const since = url.searchParams.get('since') ?? '';
  if (!since.startsWith('-')) return copyText(url.href, 'Link copied.');
  const relative = url.href;
  url.searchParams.set('since', instantOf(since, clock.now) ?? since);
  url.searchParams.set('until', new Date(clock.now).toISOString());
  const act = () => void copyText(url.href, 'Link with fixed times copied.');
  return copyText(relative, 'Link copied. Its range moves with the time.', { text: 'Copy with fixed times', act });
}
