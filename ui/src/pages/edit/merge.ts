// What two people changed of the same job: fields of the definition, and which of them both touched.

import type { Values } from './form.ts';

export type Clash = { field: string; base: unknown; theirs: unknown; mine: unknown };

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The fields that differ between two definitions. */
export function changedFields(before: Values, after: Values): string[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].filter((name) => !same(before[name], after[name])).sort();
}

/** Their definition with the fields that were changed here. */
export function merged(base: Values, mine: Values, theirs: Values): Values {
  const made: Values = { ...theirs };
  for (const field of changedFields(base, mine)) {
    if (mine[field] === undefined) delete made[field];
    else made[field] = mine[field];
  }
  return made;
}

/** Every field that either side changed, with all three values. */
export function clashes(base: Values, mine: Values, theirs: Values): Clash[] {
  const fields = new Set([...changedFields(base, mine), ...changedFields(base, theirs)]);
  return [...fields].sort().map((field) => ({ field, base: base[field], theirs: theirs[field], mine: mine[field] }));
}
