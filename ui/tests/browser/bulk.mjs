// What an operator does at night: outputs of any size, many jobs at once, commands, saved views, a
// flattened minute, a printed run, a public status page.

import assert from 'node:assert/strict';
import { login, openPage, settled, until, untilEqual, XSS } from './world.mjs';

const button = (page, name) => page.getByRole('button', { name, exact: true });
const shell = (text) => ({ command: '/bin/sh', arguments: ['-c', text] });

/** About 16 MB: the server keeps the first and the last five. */
export const LARGE = `i=0; l='----------------------------------------------------------------'; while [ $i -lt 200000 ]; do echo "line $i $l"; i=$((i+1)); done; printf '\\033[31mthe needle\\033[0m is here\\n'; printf '10%%\\r50%%\\r100%% done\\n'; echo '${XSS[1]}'`;

export async function largeRun({ call }) {
  await call('POST', '/v1/jobs', { name: 'large-output', job_type: 'MANUAL', timeout_seconds: 600, payload: shell(LARGE) }).catch(() => undefined);
  const { execution_id: id } = await call('POST', '/v1/jobs/large-output/trigger', {});
  await until('the end of the large output', async () => (await call('GET', `/v1/executions/${id}`)).completed_at);
  return id;
}

export const bulk = {
  async anOutputOfAnySizeIsReadAndSearched(world) {
    const { server, browser } = world;
    const id = (world.large ??= await largeRun(server));
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 400') });
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/runs/${id}`);
    const box = page.getByRole('region', { name: 'Lines of the output' });
    await box.getByText('line 0 ---').waitFor();
    // Few of the lines are in the page; the scroll bar stands for all of them.
    const drawn = await box.locator('.line').count();
    assert.ok(drawn < 150, `${drawn} lines are drawn`);
    const index = await server.call('GET', `/v1/executions/${id}/logs/index`);
    assert.equal(index.cuts.length, 1);
    await page.getByText(new RegExp(`^${String(index.lines).replace(/(\d{3})$/, '.$1')} lines, `)).waitFor();
    // The end, and what was left out.
    await box.evaluate((it) => it.scrollTo(0, it.scrollHeight));
    await box.getByText('100% done').waitFor();
    assert.equal(await box.getByText('10%', { exact: true }).count(), 0);
    await box.evaluate((it, line) => it.scrollTo(0, line * 20), index.cuts[0].line - 3);
    await box.getByText(/left out: the first and the last part/).waitFor();
    // The server searches all of it; a hit is shown and marked.
    await page.getByLabel('Find in the output').fill('needle is');
    const hits = page.getByRole('list', { name: 'Lines found' });
    await hits.getByText('the needle is here').waitFor();
    await page.getByText(/^1 line, .* searched$/).waitFor();
    await box.locator('.hit-now').getByText('the needle').waitFor();
    // A line has an address, and all that it has shown.
    await box.getByText('100% done').click();
    await untilEqual('all of a progress bar', ['10%', '50%', '100% done'], async () => (await page.locator('.chosen pre').innerText()).trim().split('\n'));
    await until('the line in the address', () => /#L\d+$/.test(page.url()));
    await page.reload();
    await box.locator('.linked').getByText('100% done').waitFor();
    await page.getByLabel('Find in the output').fill('(');
    await page.getByLabel('regular expression').check();
    await page.getByText('is no regular expression').waitFor();
    await page.getByLabel('Find in the output').fill('line 19999?7 --');
    await page.getByText(/^2 lines, .* searched$/).waitFor();
    await check('large output');
    await context.close();
  },

  async aLineWithoutAnEndIsShownWhileItRuns({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await server.call('POST', '/v1/jobs', { name: 'progress', job_type: 'MANUAL', payload: shell("echo begun; printf 'part 1\\rpart 2'; while true; do sleep 1; done") });
    const { execution_id: id } = await server.call('POST', '/v1/jobs/progress/trigger', {});
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/runs/${id}`);
    const box = page.getByRole('region', { name: 'Lines of the output' });
    await box.getByText('part 2', { exact: true }).waitFor();
    assert.equal(await box.getByText('part 1').count(), 0);
    await server.call('POST', `/v1/executions/${id}/cancel`, {});
    await page.getByText('CANCELLED').first().waitFor();
    await check('progress');
    await context.close();
  },

  async manyJobsArePausedByAFilterAndTakenBack({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 409') });
    for (const n of [1, 2, 3, 4]) await server.call('POST', '/v1/jobs', { name: `fleet-${n}`, job_type: 'CRON', cron_expression: '0 5 1 1 *', tags: ['fleet'], payload: { type: 'NOOP' } });
    await server.call('POST', '/v1/jobs/fleet-4/pause', {});
    const states = async () => (await server.call('GET', '/v1/jobs?tag=fleet')).data.map((it) => it.status).join(' ');
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/jobs?tag=fleet`);
    await page.getByLabel('Choose fleet-1').check();
    await page.getByText('1 job chosen').waitFor();
    await page.getByRole('button', { name: /Choose all 4/ }).click();
    await page.getByText('All jobs that match').waitFor();
    await button(page, 'Pause…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('4 jobs match; 3 of them change.').waitFor();
    await dialog.getByText('it is paused already').waitFor();
    // Another job matches by now: nothing is done, and the page counts again.
    await server.call('POST', '/v1/jobs', { name: 'fleet-5', job_type: 'CRON', cron_expression: '0 5 1 1 *', tags: ['fleet'], payload: { type: 'NOOP' } });
    await dialog.getByRole('button', { name: 'Pause 3 jobs' }).click();
    await dialog.getByText(/5 jobs match, not 4; nothing was done/).first().waitFor();
    assert.equal(await states(), 'ACTIVE ACTIVE ACTIVE PAUSED ACTIVE');
    await dialog.getByRole('button', { name: 'Count' }).click();
    await dialog.getByRole('button', { name: 'Pause 4 jobs' }).click();
    await dialog.getByText('Done for 4 jobs, not for 1.').waitFor();
    assert.equal(await states(), 'PAUSED PAUSED PAUSED PAUSED PAUSED');
    await dialog.getByRole('button', { name: 'Undo' }).click();
    await untilEqual('the states before', 'ACTIVE ACTIVE ACTIVE PAUSED ACTIVE', states);
    await check('batch');
    await context.close();
  },

  async runsAreRetriedByAFilter({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/runs?status=FAILED&since=-1h`);
    await button(page, 'Retry…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/runs? match/).waitFor();
    const text = await dialog.getByRole('button', { name: /^Retry \d/ }).innerText();
    assert.match(text, /^Retry \d+ runs?$/);
    await dialog.getByRole('button', { name: 'Back' }).click();
    await check('retry of many');
    await context.close();
  },

  async viewsAreSavedForTheUser({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/jobs?status=PAUSED&tag=etl`);
    await page.getByText('Views ▾').click();
    await page.getByLabel('Name of the view').fill('Paused <b>etl</b>');
    await button(page, 'Save').click();
    await page.getByRole('link', { name: 'Paused <b>etl</b>' }).waitFor();
    const stored = await server.call('GET', '/v1/whoami/preferences');
    assert.deepEqual(stored.values.views, [{ page: 'jobs', name: 'Paused <b>etl</b>', query: 'status=PAUSED&tag=etl' }]);
    // It is there in another browser, also in the search.
    const other = await openPage(browser);
    await login(other.page, server.url, server.key);
    await settled(other.page);
    await other.page.keyboard.press('Control+K');
    await other.page.getByRole('combobox').fill('paused <b>');
    await other.page.getByRole('option', { name: /Paused <b>etl/ }).click();
    await until('the view', () => other.page.url().endsWith('/ui/jobs?status=PAUSED&tag=etl'));
    await other.check('view');
    await other.context.close();
    await button(page, 'Remove the view Paused <b>etl</b>').click();
    await page.getByText('No view is saved yet.').waitFor();
    await check('views');
    await context.close();
  },

  async commandsAreFoundInTheSearch({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await settled(page);
    const dark = () => page.evaluate(() => document.documentElement.dataset.theme ?? '');
    const before = await dark();
    await page.keyboard.press('Control+K');
    await page.getByRole('combobox').fill('theme');
    await page.getByRole('option', { name: /Use the .* theme/ }).waitFor();
    await page.keyboard.press('Enter');
    await until('the other theme', async () => (await dark()) !== before);
    // A command never acts at once: it opens the dialog.
    await page.keyboard.press('Control+K');
    await page.getByRole('combobox').fill('pause mail-dig');
    await page.getByRole('option', { name: /Pause mail-digest/ }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('heading', { name: /Pause mail-digest/ }).waitFor();
    await dialog.getByRole('button', { name: 'Back' }).click();
    assert.equal((await server.call('GET', '/v1/jobs/mail-digest')).status, 'ACTIVE');
    await check('commands');
    await context.close();
  },

  async aBusyMinuteIsFlattenedAndRestored({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    const at = new Date(Math.ceil(Date.now() / 86_400_000) * 86_400_000 + 3 * 3_600_000 + 7 * 60_000);
    const cron = `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
    for (let n = 0; n < 12; n++) await server.call('POST', '/v1/jobs', { name: `herd-${n}`, job_type: 'CRON', cron_expression: cron, timezone: 'UTC', tags: ['herd'], ...(n === 0 ? { priority: 9 } : {}), payload: { type: 'NOOP' } });
    const jitters = async () => (await server.call('GET', '/v1/jobs?tag=herd')).data.filter((it) => it.jitter_seconds).length;
    await until('the plan', async () => (await server.call('GET', `/v1/schedule?from=${at.toISOString()}&minutes=1`)).minutes[0]?.starts >= 12);
    await login(page, server.url, server.key);
    const hour = new Date(at.getTime() - 7 * 60_000).toISOString().replace('.000', '');
    await page.goto(`${server.url}/ui/lab/fleet?hour=${encodeURIComponent(hour)}`);
    await page.getByRole('region', { name: 'Minutes of the hour' }).getByRole('button', { name: /^Flatten/ }).first().click();
    const panel = page.getByRole('region', { name: 'Flatten' });
    await panel.getByText('priority 9: left alone').waitFor();
    await panel.getByLabel('Start within').selectOption('30');
    await panel.getByText(/peak 12 → [1-9]$/).waitFor();
    await panel.getByRole('button', { name: 'Apply to 11 jobs' }).click();
    await panel.getByText('11 jobs start within 30 minutes').waitFor();
    assert.equal(await jitters(), 11);
    await panel.getByRole('button', { name: 'Undo' }).click();
    await panel.getByText('Restored 11 jobs').waitFor();
    assert.equal(await jitters(), 0);
    // What an edit would do to the week.
    await page.goto(`${server.url}/ui/jobs/herd-1/edit`);
    await page.getByLabel('Effect in the next 7 days').getByText(/starts$/).waitFor();
    await check('flatten');
    await context.close();
  },

  async aRunIsPrintedForAReport({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/runs/${seeded.talker}`);
    await page.getByText('the needle is here').waitFor();
    await page.emulateMedia({ media: 'print' });
    assert.equal(await page.getByRole('navigation', { name: 'Pages' }).isVisible(), false);
    assert.equal(await button(page, 'Print').isVisible(), false);
    await page.getByText(/printed \d{4}-/).waitFor();
    const box = page.getByRole('region', { name: 'Lines of the output' });
    assert.ok(await box.evaluate((it) => it.scrollHeight <= it.clientHeight + 1), 'all lines are on paper');
    await check('print');
    await context.close();
  },

  async aStatusPageIsPublicForItsTagsOnly(world) {
    const { server, browser } = world;
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 404') });
    for (const [n, text] of XSS.entries()) await server.call('POST', '/v1/jobs', { name: `shown ${n} ${text.replaceAll('\u202E', '')}`, job_type: 'MANUAL', tags: ['shown'], payload: { type: 'NOOP' } });
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/administration/status-pages`);
    await button(page, 'New status page…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('shop');
    await dialog.getByLabel('Title').fill(`Shop ${XSS[1]}`);
    await dialog.getByLabel('Tags').fill('shown');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('cell', { name: '/ui/status/shop' }).waitFor();
    // A visitor without a login.
    const visitor = await openPage(browser, { expected: (text) => text.includes('status of 404') });
    const seen = await visitor.page.goto(`${server.url}/ui/status/shop`);
    assert.equal(seen.status(), 404);
    await server.call('PATCH', '/v1/status-pages/shop', { is_public: true });
    assert.equal((await visitor.page.goto(`${server.url}/ui/status/shop`)).status(), 200);
    await visitor.page.getByText(`Shop ${XSS[1]}`).waitFor();
    await visitor.page.getByText(XSS[0]).waitFor();
    const body = await visitor.page.content();
    for (const leak of ['nightly-ledger', 'import-orders', '/v1/', 'execution', 'admin']) assert.ok(!body.includes(leak), leak);
    await visitor.check('status page');
    await visitor.context.close();
    await check('administration of status pages');
    await context.close();
  },
};
