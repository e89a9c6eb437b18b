import assert from 'node:assert/strict';
import { test } from 'node:test';
import { definitionFrom, definitionOf, formOf, inputOf } from '../../src/pages/edit/form.ts';
import { filterText, parseFilter, readQuery } from '../../src/pages/jobs/filter.ts';

const job = {
  job_id: 'x', version: 3, may: ['ALTER'], schedule_text: 'daily', name: 'a', description: 'b', job_type: 'CRON', cron_expression: '0 1 * * *',
  timezone: 'Europe/Berlin', dst: { gap: 'SHIFT_AFTER' }, payload: { type: 'HTTP', endpoint: 'https://x/', headers: { a: 'b' }, body: { c: 1 } },
  retry_config: { max_retries: 4, jitter: 0.5 }, run_on: { zone: 'eu' }, depends_on: [{ job: 'up', on: 'FAILURE' }, 'other'], tags: ['t', 'u'], priority: 7,
};

test('a form that nobody touched asks for the same definition', () => {
  const base = definitionOf(job);
  assert.equal('job_id' in base || 'version' in base || 'may' in base, false);
  const again = definitionFrom(formOf(base), base);
  assert.deepEqual(again, { ...base, retry_config: { jitter: 0.5, max_attempts: 5 } });
});

test('another kind of schedule takes the fields of the old one away', () => {
  const base = definitionOf(job);
  const made = definitionFrom({ ...formOf(base), kind: 'INTERVAL', interval: '90' }, base);
  assert.deepEqual([made.job_type, made.interval_seconds, made.cron_expression, made.timezone, made.dst], ['INTERVAL', 90, undefined, undefined, undefined]);
  const text = definitionFrom({ ...formOf(base), kind: 'INTERVAL', interval: 'PT15M' }, base);
  assert.equal(text.interval_seconds, 'PT15M');
});

test('another action starts from nothing', () => {
  const base = definitionOf(job);
  const form = formOf(base);
  const made = definitionFrom({ ...form, action: 'SQL', payload: { ...form.payload, sql: 'SELECT 1', database: 'main' } }, base);
  assert.deepEqual(made.payload, { type: 'SQL', sql: 'SELECT 1', database: 'main' });
});

test('fields of the API are found in the form', () => {
  assert.deepEqual(['cron_expression', 'payload.endpoint', 'tags[1]', 'retry_config.max_attempts'].map(inputOf), ['cron', 'endpoint', 'tags', 'attempts']);
});

test('a filter is read, written and shared', () => {
  const query = parseFilter('ledger status:paused tag:Etl kind:cron more');
  assert.deepEqual(query, { q: 'ledger more', status: 'PAUSED', tag: 'Etl', kind: 'CRON' });
  assert.deepEqual(parseFilter(filterText(query)), query);
  const read = readQuery(new URLSearchParams('q=a&status=FOO&kind=CRON'));
  assert.deepEqual(read, { query: { q: 'a', kind: 'CRON' }, ignored: ['status=FOO'] });
});

test('a conflict keeps what both changed', async () => {
  const { clashes, merged } = await import('../../src/pages/edit/merge.ts');
  const base = { name: 'a', priority: 5, tags: ['x'], description: 'old' };
  const mine = { name: 'a', priority: 5, description: 'mine' };
  const theirs = { name: 'a', priority: 7, tags: ['x'], description: 'theirs' };
  assert.deepEqual(merged(base, mine, theirs), { name: 'a', priority: 7, description: 'mine' });
  assert.deepEqual(clashes(base, mine, theirs).map((it) => it.field), ['description', 'priority', 'tags']);
});
