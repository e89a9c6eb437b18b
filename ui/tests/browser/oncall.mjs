// What an engineer on call asks at night: what else failed like this, what else ran there, which jobs
// wait for this one, and where the output is.

import assert from 'node:assert/strict';
import { login, openPage, pressUntil, settled, until, untilEqual } from './world.mjs';

const button = (page, name) => page.getByRole('button', { name, exact: true });
const noop = { type: 'NOOP' };

export const oncall = {
  async runsAreFoundByErrorAndNode({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/runs/${seeded.failed}`);
    const run = await server.call('GET', `/v1/executions/${seeded.failed}`);
    // From an error to all runs that have it.
    await page.getByRole('link', { name: 'same error, last 24 h' }).click();
    await page.getByRole('heading', { level: 1, name: 'Runs' }).waitFor();
    await untilEqual('the error', run.error_name, () => page.getByLabel('Error or reason').inputValue());
    const statuses = async () => [...new Set(await page.locator('[data-row]').allInnerTexts())];
    await until('failed runs alone', async () => {
      const shown = await statuses();
      return shown.includes('FAILED') && !shown.includes('COMPLETED');
    });
    for (const [label, words] of [['Error or reason', 'Answered 500'], ['Job', 'import-orders']]) {
      await page.getByLabel(label, { exact: true }).fill(words);
      await page.getByLabel(label, { exact: true }).press('Enter');
    }
    await page.waitForURL(/error=Answered\+500.*job=import-orders/);
    await until('runs of one job', async () => {
      const names = await page.locator('td a.name').allInnerTexts();
      return names.length > 0 && names.every((it) => it === 'import-orders');
    });
    // What is retried is what is listed; the bar with the actions is as high as its buttons.
    assert.ok((await page.getByRole('group', { name: 'Actions on runs' }).boundingBox()).height > 30);
    const listed = (await server.call('GET', '/v1/executions?error=answered%20500&job=import-orders&status=FAILED,TIMEOUT&limit=500')).data.length;
    await button(page, 'Retry…').click();
    await page.getByRole('dialog').getByRole('button', { name: new RegExp(`^Retry ${listed} run`) }).waitFor();
    await page.keyboard.press('Escape');
    // From a node to its runs, from the run and from the list of nodes.
    await page.goto(`${server.url}/ui/runs/${seeded.failed}`);
    await page.getByRole('link', { name: run.node, exact: true }).click();
    await untilEqual('the node', run.node, () => page.getByLabel('Node').inputValue());
    await page.locator('[data-row]').first().waitFor();
    await page.goto(`${server.url}/ui/cluster`);
    await page.getByRole('link', { name: /^\d+ of \d+$/ }).click();
    await untilEqual('statuses', ['RUNNING'], statuses);
    await page.getByLabel('Node').fill('another');
    await page.getByLabel('Node').press('Enter');
    await page.getByText('No run matches.').waitFor();
    await button(page, 'Remove filters').click();
    await page.locator('[data-row]').first().waitFor();
    await untilEqual('the node', '', () => page.getByLabel('Node').inputValue());
    await check('runs by error and node');
    await context.close();
  },

  async viewersAreNotAskedForNodes({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 403') });
    await page.goto(`${server.url}/ui/`);
    await page.getByLabel('User').fill('vera');
    await page.getByLabel('Password', { exact: true }).last().fill('correct horse battery');
    await page.getByRole('button', { name: 'Log in', exact: true }).click();
    await page.getByRole('navigation', { name: 'Pages' }).waitFor();
    await page.goto(`${server.url}/ui/runs`);
    await page.locator('[data-row]').first().waitFor();
    assert.equal(await page.getByLabel('Node').count(), 0);
    // A link of someone else says what is missing, and the filter can be taken away.
    await page.goto(`${server.url}/ui/runs?node=any`);
    await page.getByText('ADMINISTER TENANT').waitFor();
    await page.getByLabel('Node').fill('');
    await page.getByLabel('Node').press('Enter');
    await page.locator('[data-row]').first().waitFor();
    await check('viewer');
    await context.close();
  },

  async graphShowsTheJobsAroundAJob({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    const job = (name, depends_on) => server.call('POST', '/v1/jobs', { name, job_type: depends_on.length ? 'DEPENDENT' : 'MANUAL', depends_on, payload: noop });
    await job('night-extract', []);
    await job('night-load', [{ job: 'night-extract', on: 'COMPLETION' }]);
    await job('night-report', ['night-load']);
    await job('night-mail', ['night-report']);
    await server.call('POST', '/v1/jobs/night-report/pause');
    await seeded.ended(await seeded.run('night-extract'));
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/jobs/night-load`);
    // The summary and the editor name the jobs, and not their ids.
    const waits = page.locator('.facts dd').filter({ has: page.getByRole('link', { name: 'night-extract', exact: true }) });
    await waits.waitFor();
    await page.locator('.facts dd').filter({ has: page.getByRole('link', { name: 'night-report', exact: true }) }).waitFor();
    await page.goto(`${server.url}/ui/jobs/night-load/edit`);
    await untilEqual('jobs before it', 'night-extract', () => page.getByLabel('Waits for jobs').inputValue());
    await page.getByLabel('Description').fill('changed');
    await button(page, 'Save').click();
    await waits.waitFor();
    assert.equal((await server.call('GET', '/v1/jobs/night-load')).depends_on[0].on, 'COMPLETION');
    const graph = page.getByRole('region', { name: 'Graph' });
    await pressUntil(page, ['6'], graph);
    await graph.getByRole('link', { name: /^night-extract, COMPLETED/ }).waitFor();
    await graph.getByRole('link', { name: /^night-report, paused, PENDING, after night-load/ }).waitFor();
    await graph.getByRole('link', { name: /^night-mail, / }).waitFor();
    await page.getByText('Waits for night-extract, however it ends. night-report waits for it.').waitFor();
    // The arrow keys follow the edges, and Enter opens a job.
    await graph.getByRole('link', { name: /^night-load/ }).focus();
    await page.keyboard.press('ArrowRight');
    await until('the next job', () => page.evaluate(() => document.activeElement?.getAttribute('aria-label')?.startsWith('night-report')));
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'night-report' }).waitFor();
    await graph.getByRole('link', { name: /^night-extract, / }).waitFor();
    await page.goto(`${server.url}/ui/jobs/night-load/graph?depth=1`);
    await graph.getByRole('link', { name: /^night-report/ }).waitFor();
    assert.equal(await graph.getByRole('link', { name: /^night-mail/ }).count(), 0);
    await button(page, 'Look further').click();
    await graph.getByRole('link', { name: /^night-mail/ }).waitFor();
    // The dialog names the jobs that would wait for ever.
    await button(page, 'Delete…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('A job waits for it: night-report').waitFor();
    await dialog.getByLabel('Type its name').fill('night-load');
    assert.ok(await dialog.getByRole('button', { name: 'Delete' }).isDisabled());
    await dialog.getByLabel('It no longer waits for night-load').check();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
    await page.goto(`${server.url}/ui/jobs/night-extract/graph`);
    await page.getByText('It waits for no job, and no job that you see waits for it.').waitFor();
    await check('graph');
    await context.close();
  },

  async anOutputThatCannotBeReadSaysWhy({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => /status of (421|503)/.test(text) });
    await login(page, server.url, server.key);
    const answer = (status, code, message) => (route) => route.fulfill({ status, contentType: 'application/json', body: JSON.stringify({ error: { code, message, request_id: 'r-17' } }) });
    const logs = /\/logs\?/;
    await page.route(logs, answer(421, 'OUTPUT_ELSEWHERE', 'the output of attempt 1 is on node "node-2" (10.0.0.2:8630); ask that node'));
    await page.goto(`${server.url}/ui/runs/${seeded.talker}`);
    const output = page.getByRole('region', { name: 'Output', exact: true });
    await output.getByText('is on node "node-2" (10.0.0.2:8630); ask that node').waitFor();
    await output.getByText('OUTPUT_ELSEWHERE · request r-17').waitFor();
    assert.equal(await output.getByText('wrote nothing').count(), 0);
    // The archive may be slow to come back: the page asks again by itself, and at once when told to.
    await page.unroute(logs);
    await page.route(logs, answer(503, 'SCHEDULER_UNAVAILABLE', 'the archive of outputs does not answer'));
    await output.getByRole('button', { name: 'Try again' }).click();
    await output.getByText('the archive of outputs does not answer').waitFor();
    await page.unroute(logs);
    await output.getByText('line 0 of the output').waitFor();
    assert.equal(await output.locator('.problem').count(), 0);
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await button(page, 'Copy all').click();
    await until('the output', async () => /line 0 of the output\n(oops\n)?line 1 /.test(await page.evaluate(() => navigator.clipboard.readText())));
    await check('output');
    await context.close();
  },

  async childRunsAreListedFailedOnesFirst({ server, browser, seeded, service }) {
    const { page, check, context } = await openPage(browser);
    for (const name of ['shard_a', 'shard_b', 'shard_c']) await server.call('POST', '/v1/shards', { name });
    await server.call('POST', '/v1/jobs', { name: 'split-at-night', job_type: 'MANUAL', partition: { strategy: 'ALL_SHARDS' }, retry_config: { max_attempts: 1 }, payload: { endpoint: `${service.url}/broken?no`, method: 'GET' } });
    const id = await seeded.run('split-at-night');
    await seeded.ended(id);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/runs/${id}`);
    const runs = page.getByRole('region', { name: 'Runs' });
    for (const name of ['shard_a', 'shard_b', 'shard_c']) await runs.getByRole('row', { name: new RegExp(name) }).getByText('FAILED').waitFor();
    await settled(page);
    await check('child runs');
    await context.close();
  },

  async longNamesStayInsideThePage({ server, browser, seeded, service }) {
    const { page, check, context } = await openPage(browser, { width: 390 });
    const name = `long-${'x'.repeat(180)}`;
    await server.call('POST', '/v1/jobs', { name, job_type: 'MANUAL', description: 'y'.repeat(300), retry_config: { max_attempts: 1 }, payload: { endpoint: `${service.url}/broken?${'z'.repeat(300)}`, method: 'GET' } });
    await server.call('POST', '/v1/jobs', { name: 'after-long', job_type: 'DEPENDENT', depends_on: [name], payload: noop });
    const { execution_id: id } = await seeded.ended(await seeded.run(name));
    await login(page, server.url, server.key);
    for (const path of ['', 'jobs', `jobs/${name}`, `jobs/${name}/history`, 'jobs/after-long', 'jobs/after-long/graph', 'runs', `runs/${id}`, 'dead-letters']) {
      await page.goto(`${server.url}/ui/${path}`);
      await settled(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${path} is ${wide} pixels wider than the screen`);
    }
    for (const it of ['after-long', name]) await server.call('DELETE', `/v1/jobs/${it}`);
    await check('long names');
    await context.close();
  },

  async aPageIsCopiedForATerminal({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await login(page, server.url, server.key);
    const copied = (expected) => untilEqual('what was copied', expected, () => page.evaluate(() => navigator.clipboard.readText()));
    const command = async (words) => {
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: 'Search' }).fill(words);
      await page.getByRole('option', { name: new RegExp(words, 'i'), selected: true }).waitFor();
      await page.keyboard.press('Enter');
    };
    const hostile = seeded.xssJobs.find((it) => it.includes("'-window"));
    await page.goto(`${server.url}/ui/jobs/${encodeURIComponent(hostile)}`);
    await page.getByRole('heading', { level: 1, name: hostile }).waitFor();
    await command('copy as command line');
    await copied(`punctual job show '${hostile.replaceAll("'", `'\\''`)}'`);
    await command('copy as curl');
    await copied(`curl -H "Authorization: Bearer $PUNCTUAL_TOKEN" '${server.url}/v1/jobs/${encodeURIComponent(hostile).replaceAll("'", `'\\''`)}'`);
    // The definition as a statement, as the server writes it.
    await page.goto(`${server.url}/ui/jobs/nightly-ledger/definition`);
    await button(page, 'Copy').click();
    await until('the definition', async () => (await page.evaluate(() => navigator.clipboard.readText())).startsWith('{'));
    // What was copied is a definition: the server takes it.
    const { status, ...copy } = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
    await server.call('POST', '/v1/jobs:validate', { ...copy, name: 'copied' });
    await button(page, 'SQL').click();
    await page.getByText(/CREATE JOB "?nightly-ledger/).waitFor();
    await button(page, 'Copy').click();
    await until('the statement', async () => (await page.evaluate(() => navigator.clipboard.readText())).includes("'30 2 * * *'"));
    // The beginning of an id leads to its run.
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search' }).fill(seeded.talker.slice(0, 23));
    await page.getByRole('option', { name: /run$/, selected: true }).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(new RegExp(seeded.talker));
    await check('copied');
    await context.close();
  },

  async lettersNarrowChooseAndSwitch({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/jobs`);
    await page.getByRole('link', { name: 'nightly-ledger' }).waitFor();
    await page.keyboard.press('e');
    await page.waitForURL(/last=FAILED%2CTIMEOUT/);
    await page.getByRole('link', { name: 'nightly-ledger' }).waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'import-orders' }).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('x');
    await untilEqual('chosen rows', 1, () => page.locator('tbody input:checked').count());
    await page.keyboard.press('x');
    await untilEqual('chosen rows', 0, () => page.locator('tbody input:checked').count());
    await page.goto(`${server.url}/ui/runs`);
    await page.locator('[data-row]').first().waitFor();
    await page.keyboard.press('e');
    await page.waitForURL(/status=FAILED%2CTIMEOUT%2CMISSED/);
    await page.goto(`${server.url}/ui/runs/${seeded.talker}`);
    const output = page.getByRole('region', { name: 'Lines of the output' });
    await output.getByText('line 0 of the output').waitFor();
    for (const stream of ['stdout', 'stderr']) {
      await page.keyboard.press('s');
      await untilEqual('the stream', stream, () => page.getByLabel('Streams').inputValue());
    }
    await output.getByText('oops').waitFor();
    await output.getByText('line 0 of the output').waitFor({ state: 'detached' });
    // The tab tells by its title and its icon how the run is doing.
    assert.match(await page.title(), /^COMPLETED · talker · \w{3} \d/);
    const icon = () => page.locator('link[rel=icon]').getAttribute('href');
    assert.match(await icon(), /^data:image\/svg/);
    await pressUntil(page, ['g', 'j'], page.getByRole('heading', { level: 1, name: 'Jobs' }));
    assert.match(await icon(), /favicon\.svg$/);
    await check('letters');
    await context.close();
  },
};
