// The payload of a message as one line.

const LENGTH_MAX = 300;

export function summary(payload: unknown): string {
  const text = typeof payload === 'string' ? payload : JSON.stringify(payload ?? null);
  const line = text.replace(/\s+/g, ' ').trim() || '(empty)';
  return line.length > LENGTH_MAX ? `${line.slice(0, LENGTH_MAX)}…` : line;
}
