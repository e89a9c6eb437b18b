// Completion of tables and columns: the names are asked from the server once.

import { api, data } from '../../api/client.ts';

/** Columns by table. */
export type TableNames = Record<string, string[]>;

const WORDS = ['SELECT', 'FROM', 'WHERE', 'GROUP BY', 'ORDER BY', 'LIMIT', 'CREATE JOB', 'ALTER JOB', 'DROP JOB', 'EXECUTE JOB', 'EXPLAIN JOB', 'SHOW JOBS', 'SHOW QUEUES', 'PAUSE JOB', 'RESUME JOB', 'CREATE QUEUE', 'SEND TO'];
const OFFERED = 12;

let loaded: Promise<TableNames> | undefined;

export function loadTables(): Promise<TableNames> {
  const sql = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'sys' ORDER BY table_name, ordinal_position";
  loaded ??= data(api.POST('/v1/sql', { body: { sql, parameters: [] } }))
    .then((answer) => {
      const tables: TableNames = {};
      for (const [table, column] of answer.results[0]?.rows ?? []) (tables[`sys.${String(table)}`] ??= []).push(String(column));
      return tables;
    })
    .catch(() => {
      loaded = undefined;
      return {};
    });
  return loaded;
}

/** What the word before the cursor may become. */
export function complete(text: string, cursor: number, tables: TableNames): string[] {
  const word = /[\w.]*$/.exec(text.slice(0, cursor))?.[0] ?? '';
  if (word.length < 2) return [];
  const wanted = word.toLowerCase();
  const named = Object.keys(tables);
  // Columns of the tables that the text names; of all tables if it names none.
  const used = named.filter((it) => text.includes(it));
  const columns = [...new Set((used.length ? used : named).flatMap((it) => tables[it] ?? []))];
  const fits = (it: string) => it.toLowerCase().startsWith(wanted) && it.toLowerCase() !== wanted;
  return [...named.filter(fits), ...columns.filter(fits), ...WORDS.filter(fits)].slice(0, OFFERED);
}
