// Parameters of a run as fields: the type of each is that of the value which the job has.

import { Problem } from '../../api/problem.ts';

export type ParameterField = { name: string; type: 'text' | 'number' | 'boolean' | 'json'; text: string; checked: boolean };

export function fieldsOf(values: Record<string, unknown>): ParameterField[] {
  return Object.entries(values).map(([name, value]) => {
    const type =
      typeof value === 'string' ? 'text'
      : typeof value === 'number' ? 'number'
      : typeof value === 'boolean' ? 'boolean'
      : 'json';
    const text = type === 'text' ? String(value) : JSON.stringify(value);
    return { name, type, text, checked: value === true };
  });
}

/** The values of the fields. Throws a problem that names the field that cannot be read. */
export function readFields(fields: ParameterField[]): Record<string, unknown> {
  return Object.fromEntries(fields.map((field) => [field.name, valueOf(field)]));
}

function valueOf({ name, type, text, checked }: ParameterField): unknown {
  if (type === 'boolean') return checked;
  if (type === 'text') return text;
  try {
    const value: unknown = JSON.parse(text);
    if (type === 'json' || typeof value === 'number') return value;
  } catch {
    // Told below.
  }
  const wanted = type === 'number' ? 'a number' : 'JSON';
  throw new Problem(0, 'INVALID_PARAMETER', `${name} must be ${wanted}, not "${text}"`);
}
