// Jobs and runs that fill every page: well, failing, skipped, running, paused, with texts that a
// page must not take for markup.

import { pushArtifact, until, untilEqual, XSS } from './world.mjs';

const noop = { type: 'NOOP' };

export async function seed(server, service, folder) {
  const { call } = server;
  const job = (body) => call('POST', '/v1/jobs', body);
  const run = async (name, body = {}) => (await call('POST', `/v1/jobs/${encodeURIComponent(name)}/trigger`, body)).execution_id;
  const ended = (id) => until(`the end of ${id}`, async () => {
    const found = await call('GET', `/v1/executions/${id}`);
    return found.completed_at ? found : undefined;
  });
  await job({ name: 'nightly-ledger', description: 'Closes the books of the day.', cron_expression: '30 2 * * *', timezone: 'Europe/Berlin', tags: ['etl', 'finance'], payload: { endpoint: `${service}/ok`, method: 'GET' } });
  await job({ name: 'import-orders', cron_expression: '*/15 * * * *', tags: ['etl'], retry_config: { max_attempts: 2, backoff_seconds: 1 }, payload: { endpoint: `${service}/broken?relation%20orders_2026%20does%20not%20exist`, method: 'GET' } });
  await job({ name: 'mail-digest', interval_seconds: 3600, tags: ['mail'], payload: noop });
  // It must still run when the last journey looks at it, however slow the machine is.
  await job({ name: 'rebuild-index', job_type: 'MANUAL', overlap: 'ALLOW', timeout_seconds: 7200, payload: { endpoint: `${service}/slow`, method: 'GET' } });
  await job({ name: 'quarter-hourly', cron_expression: '*/15 * * * *', timezone: 'Europe/Berlin', payload: noop });
  await job({ name: 'vacuum', cron_expression: '0 4 * * SUN', status: 'PAUSED', payload: noop });
  await job({ name: 'report', job_type: 'DEPENDENT', depends_on: ['nightly-ledger'], payload: noop });
  await job({
    name: 'talker', job_type: 'MANUAL', tags: ['shell'],
    payload: { command: '/bin/sh', arguments: ['-c', `i=0; while [ $i -lt 300 ]; do echo "line $i of the output"; i=$((i+1)); done; printf '\\033[31mred\\033[0m and \\033[1mbold\\033[0m\\n'; echo 'the needle is here'; printf '%s\\n' "$0"; echo oops >&2`, XSS.join('\n')] },
  });
  await job({ name: 'follower', job_type: 'MANUAL', payload: { command: '/bin/sh', arguments: ['-c', 'echo begun; while true; do echo tick; sleep 0.3; done'] } });
  for (const [i, text] of XSS.entries()) {
    await job({ name: `xss ${i} ${text.replaceAll('\u202E', '')}`, description: text, tags: [text.slice(0, 60).replaceAll('\u202E', '')], job_type: 'MANUAL', retry_config: { max_attempts: 1 }, parameters: { value: text }, payload: { endpoint: `${service}/broken?${encodeURIComponent(text)}`, method: 'GET' } });
  }
  await pushArtifact(server, folder, 'customer_sync', 'echo one', 'commit=0a1b2c3');
  await pushArtifact(server, folder, 'customer_sync', 'echo two', 'commit=4d5e6f7');
  await job({ name: 'sync-customers', job_type: 'MANUAL', payload: { type: 'ARTIFACT', artifact_id: 'customer_sync@2', entrypoint: 'customer_sync.sh' } });
  const names = (await call('GET', '/v1/jobs?q=xss')).data.map((it) => it.name);
  const runs = [];
  for (const name of ['nightly-ledger', 'nightly-ledger', 'nightly-ledger', 'mail-digest', 'import-orders', 'import-orders', 'talker', ...names]) runs.push(await run(name));
  const slow = [await run('rebuild-index'), await run('rebuild-index')];
  for (const id of runs) await ended(id);
  await until('two runs of rebuild-index', async () => (await call('GET', '/v1/executions?status=RUNNING')).data.length >= 2);
  const talker = (await call('GET', '/v1/jobs/talker/executions')).data[0].execution_id;
  const failed = (await call('GET', '/v1/jobs/import-orders/executions?status=FAILED')).data[0].execution_id;
  await call('POST', '/v1/queues', { name: 'emails', description: 'Letters to customers', tags: ['mail'], retry_config: { max_attempts: 1 }, workspace_concurrency: 4, weights: { acme: 2 } });
  const letter = (workspace, n) => ({ workspace, payload: { to: `customer-${n}@example.com`, template: 'invoice' } });
  await call('POST', '/v1/queues/emails/messages', { messages: [{ workspace: 'acme', priority: 9, payload: { to: 'nobody@example.com', note: XSS[1] } }] });
  const { messages } = await call('POST', '/v1/queues/emails/lease', { max: 1, wait_s: 10 });
  await call('POST', '/v1/queues/emails/fail', { messages: [{ id: messages[0].id, fence: messages[0].fence, error: 'mailbox unavailable' }] });
  await call('POST', '/v1/queues/emails/messages', { messages: Array.from({ length: 40 }, (_, n) => letter(['acme', 'initech', 'umbrella', ''][n % 4], n)) });
  await call('POST', '/v1/queues/emails/messages', { messages: [{ ...letter('acme', 50), delay_seconds: 3600 }] });
  await call('POST', '/v1/queues/emails/lease', { max: 7, lease_s: 3600, wait_s: 10 });
  const dagRun = await seedWorkflow(call, service);
  // A user who only reads.
  await call('POST', '/v1/users', { name: 'vera', password: 'correct horse battery' });
  await call('POST', '/v1/grants', { privilege: 'VIEW JOB HISTORY', to_user: 'vera' });
  return { xssJobs: names, talker, failed, slow, run, ended, dagRun };
}

/** A workflow with steps in every state: two runs that failed, and one that waits for an approval. */
async function seedWorkflow(call, service) {
  const step = (name, dependencies, more = {}) => ({ name, dependencies, payload: noop, max_retries: 0, ...more });
  await call('POST', '/v1/dags', {
    name: 'etl-pipeline', description: 'Loads the warehouse.', cron_expression: '0 2 * * *', timezone: 'Europe/Berlin', tags: ['etl'],
    config: { files: ['a.csv', 'b.csv', 'c.csv'], check: 'broken' },
    tasks: [
      step('extract', [], { payload: { endpoint: `${service}/ok`, method: 'GET' } }),
      step('customers', []),
      step('transform', ['extract', 'customers']),
      step('load', ['transform'], { for_each: { item: 'file', list: 'config.files' } }),
      step('check', ['transform'], { payload: { endpoint: `${service}/\${config.check}?${encodeURIComponent(`rows differ ${XSS[1]}`)}`, method: 'GET' } }),
      step('report', ['check']),
      step('deep-check', ['transform'], { when: "config.check = 'deep'" }),
      step('publish', ['load'], { payload: { type: 'APPROVAL', timeout_seconds: 86_400 } }),
      step('clean', ['publish', 'report'], { trigger_rule: 'ALL_DONE' }),
    ],
  });
  let id;
  for (const answer of ['APPROVE', 'REJECT', undefined]) {
    id = (await call('POST', '/v1/dags/etl-pipeline/trigger', {})).dag_run_id;
    const run = `/v1/dag-runs/${id}`;
    await untilEqual('states of steps', 'CCCCFSSRP', async () => (await call('GET', `${run}/columns`)).statuses);
    if (!answer) break;
    await call('POST', `${run}/tasks/publish/decide`, { answer, note: XSS[0] });
    await until(`the end of ${id}`, async () => (await call('GET', run)).completed_at);
  }
  return id;
}
