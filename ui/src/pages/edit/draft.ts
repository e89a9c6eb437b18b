// What was typed into a form and not saved, kept in this tab.

import type { JobForm, Values } from './form.ts';

/** The form, and the version and definition that it began with. */
type Draft = { version: number; base: Values; form: JobForm };

export function readDraft(key: string): Draft | undefined {
  try {
    const text = sessionStorage.getItem(key);
    return text ? (JSON.parse(text) as Draft) : undefined;
  } catch {
    return undefined;
  }
}

export function writeDraft(key: string, text: string | undefined): void {
  try {
    if (text === undefined) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, text);
  } catch {
    // Without storage the text lasts as long as the page.
  }
}
