// The pictures of the documentation.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { largeRun } from './bulk.mjs';
import { ALERT_CHANNEL } from './operate.mjs';
import { login, openPage, settled, until } from './world.mjs';

export async function takeShots({ server, browser, seeded }, folder) {
  mkdirSync(folder, { recursive: true });
  // The jobs of the tests with texts that are not to be taken for markup are no example.
  for (const name of seeded.xssJobs) await server.call('DELETE', `/v1/jobs/${encodeURIComponent(name)}`);
  for (const [name, depends_on] of [['import-rates', []], ['ledger-mail', ['report']], ['tax-export', ['report', 'import-rates']]]) {
    await server.call('POST', '/v1/jobs', { name, job_type: depends_on.length ? 'DEPENDENT' : 'MANUAL', depends_on, payload: { type: 'NOOP' } });
  }
  await history(server, seeded);
  await server.call('POST', '/v1/alert-channels', ALERT_CHANNEL);
  await server.call('POST', '/v1/status-pages', { name: 'shop', title: 'Shop', tags: ['etl', 'mail'], is_public: true });
  const pages = [
    ['overview', ''],
    ['jobs', 'jobs'],
    ['job', 'jobs/nightly-ledger'],
    ['history', 'jobs/import-orders/history'],
    ['definition', 'jobs/import-orders/definition?v=2'],
    ['graph', 'jobs/report/graph'],
    ['calendar', `jobs/nightly-ledger/calendar?day=${new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)}`],
    ['run', `runs/${seeded.talker}`],
    ['run-failed', `runs/${seeded.failed}`],
    ['run-large', `runs/${await largeRun(server)}?q=needle`],
    ['why', `jobs/nightly-ledger/at/${encodeURIComponent('2030-01-01T01:30:00Z')}`],
    ['edit', 'jobs/nightly-ledger/edit'],
    ['schedule', 'jobs/nightly-ledger/schedule'],
    ['workflows', 'workflows'],
    ['workflow', 'workflows/etl-pipeline'],
    ['workflow-run', `workflow-runs/${seeded.dagRun}?step=check`],
    ['gantt', `workflow-runs/${seeded.dagRun}?view=gantt`],
    ['queues', 'queues'],
    ['queue', 'queues/emails'],
    ['messages', 'queues/emails/messages'],
    ['dead-letters', 'queues/emails/dead-letters'],
    ['sql', 'sql'],
    ['audit', 'audit?event=JOB_TRIGGERED%2CJOB_BACKFILLED%2CRUN_RETRIED%2CDEAD_LETTER_ACKNOWLEDGED'],
    ['cluster', 'cluster'],
    ['administration', 'administration'],
    ['alerts', 'administration/channels'],
    ['artifacts', 'administration/artifacts'],
    ['fleet', 'lab/fleet'],
    ['status', 'status/shop'],
    ['lab', 'lab?cron=30+2+*+*+*&tz=Europe/Berlin&from=2026-03-20&zones=America/New_York,UTC'],
  ];
  for (const [theme, width] of [['light', 1440], ['dark', 1440], ['light', 390], ['dark', 390]]) {
    const { page, context } = await openPage(browser, { theme, width, height: width < 500 ? 844 : 900 });
    await page.goto(`${server.url}/ui/`);
    await page.screenshot({ path: join(folder, `login-${theme}-${width}.png`) });
    await login(page, server.url, server.key);
    for (const [name, path] of pages) {
      await page.goto(`${server.url}/ui/${path}`);
      await page.locator('main h1').first().waitFor();
      await settled(page);
      if (name === 'edit') await page.getByRole('region', { name: 'Preview' }).getByText('next 7 days').waitFor();
      if (name === 'run-large') await page.getByText(/^1 line, .* searched$/).waitFor();
      await page.screenshot({ path: join(folder, `${name}-${theme}-${width}.png`), animations: 'disabled', caret: 'hide' });
    }
    await context.close();
  }
}

/** Some weeks of runs, and what the statistics have of them. */
async function history({ call }, seeded) {
  const day = (n) => new Date(Date.now() - n * 86_400_000).toISOString();
  await call('POST', '/v1/jobs/nightly-ledger/backfill', { from: day(60), until: day(1) });
  await call('PATCH', '/v1/jobs/import-orders', { payload: { endpoint: (await call('GET', '/v1/jobs/nightly-ledger')).payload.endpoint } });
  for (let i = 0; i < 18; i++) await seeded.ended(await seeded.run('import-orders'));
  const broken = (await call('GET', '/v1/jobs/rebuild-index')).payload.endpoint.replace('/slow', '/broken?relation%20orders%20does%20not%20exist');
  await call('PATCH', '/v1/jobs/import-orders', { payload: { endpoint: broken } });
  for (let i = 0; i < 3; i++) await seeded.ended(await seeded.run('import-orders'));
  for (let i = 0; i < 20; i++) await seeded.ended(await seeded.run('mail-digest'));
  await until('the backfill', async () => (await call('GET', '/v1/jobs/nightly-ledger/executions?status=COMPLETED&limit=100')).data.length >= 60);
  // Statistics of ended runs are a minute or two late.
  for (let i = 0; i < 4; i++) {
    const found = await until('statistics', async () => (await call('GET', '/v1/stats')).last_day.ended.COMPLETED).catch(() => undefined);
    if (found > 60) break;
  }
}
