// Statements that were run, in this browser only. Results are never kept.

const KEY = 'punctual-sql';
const MAX = 50;

export function recall(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return Array.isArray(found) ? found.filter((it): it is string => typeof it === 'string') : [];
  } catch {
    return [];
  }
}

export function remember(sql: string): string[] {
  const list = [sql, ...recall().filter((it) => it !== sql)].slice(0, MAX);
  try {
    localStorage.setItem(KEY, JSON.stringify(list));
  } catch {
    // Without storage there is no history.
  }
  return list;
}
