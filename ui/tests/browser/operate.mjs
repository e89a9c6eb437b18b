// The pages of administrators: audit, SQL, cluster, administration.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { login, openPage, pressUntil, pushArtifact, settled, startAgent, startServer, until, untilEqual, XSS } from './world.mjs';

const button = (page, name) => page.getByRole('button', { name, exact: true });
const title = (page, name) => page.getByRole('heading', { level: 1, name, exact: true }).waitFor();

/** A channel at an address where nothing listens. */
export const ALERT_CHANNEL = { name: 'on-call', url: 'https://127.0.0.1:9/hook', secret: `whsec_${Buffer.alloc(24, 7).toString('base64')}`, kinds: ['JOB_FAILED', 'RUN_MISSED'], enabled: false };

export const operate = {
  async alertRulesAreMadeChangedAndTested({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => /status of 4(00|22)/.test(text) });
    const { call } = server;
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/administration/channels`);
    await button(page, 'New channel…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('night');
    await dialog.getByLabel('Address').fill('https://127.0.0.1:9/secret-path');
    await dialog.getByLabel('Signing secret').fill('too short');
    await dialog.getByLabel('RUN_MISSED').check();
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByText('must be whsec_').first().waitFor();
    await untilEqual('what was typed', 'night', () => dialog.getByLabel('Name').inputValue());
    await dialog.getByLabel('Signing secret').fill(ALERT_CHANNEL.secret);
    await dialog.getByRole('button', { name: 'Create' }).click();
    const row = page.getByRole('row', { name: /^night / });
    await row.getByText('RUN_MISSED').waitFor();
    assert.ok(!(await page.content()).includes('secret-path'));
    // A change keeps the address and the secret that the page does not know.
    await button(page, 'Edit night').click();
    await dialog.getByLabel('JOB_FAILED').check();
    await dialog.getByLabel('Enabled').uncheck();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await row.getByText('JOB_FAILED').waitFor();
    const changed = await call('GET', '/v1/alert-channels/night');
    assert.deepEqual([changed.kinds.toSorted(), changed.enabled, changed.has_secret], [['JOB_FAILED', 'RUN_MISSED'], false, true]);
    // A change of one field sends nothing else: the page shows a database without its password.
    await call('POST', '/v1/databases', { name: 'sales', url: 'postgres://report:hidden@127.0.0.1:9/sales' });
    const sent = page.waitForRequest((it) => it.method() === 'PATCH' && it.url().includes('/v1/databases/'));
    await page.goto(`${server.url}/ui/administration/databases`);
    await button(page, 'Edit sales').click();
    await dialog.getByLabel('Description').fill(XSS[1]);
    await dialog.getByRole('button', { name: 'Save' }).click();
    assert.deepEqual((await sent).postDataJSON(), { description: XSS[1] });
    await page.getByRole('cell', { name: XSS[1] }).waitFor();
    await page.goto(`${server.url}/ui/administration/channels`);
    // A test that fails says why.
    await row.getByRole('button', { name: 'Test' }).click();
    await page.locator('.problem').getByText('night:').waitFor();
    await row.getByRole('link', { name: 'Deliveries' }).click();
    await page.getByText('Only night').waitFor();
    await page.getByText('There is no delivery').waitFor();
    await page.getByRole('link', { name: 'Back to all' }).click();
    await button(page, 'Remove night').click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await row.waitFor({ state: 'detached' });
    await check('alert rules');
    await context.close();
  },

  async artifactsShowTheirJobsAndAreRemovedWhenUnused({ server, browser, folder }) {
    await pushArtifact(server, folder, 'labelled', 'echo labelled', `note=${XSS[1]}`);
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 409') });
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/administration/artifacts`);
    const dialog = page.getByRole('dialog');
    const row = (version) => page.getByRole('row', { name: new RegExp(`^customer_sync@${version} `) });
    await row(2).getByText('commit=4d5e6f7').waitFor();
    await page.getByText(`note=${XSS[1]}`).waitFor();
    await row(2).getByRole('button', { name: 'Used by…' }).click();
    await dialog.getByRole('link', { name: 'sync-customers' }).waitFor();
    const { digest } = await server.call('GET', '/v1/artifacts/customer_sync/versions/2');
    await dialog.getByText(digest).waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    // The server refuses to take away what a job uses, and the dialog says so.
    await button(page, 'Remove customer_sync@2').click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await dialog.getByText('is used by sync-customers').waitFor();
    await dialog.getByRole('button', { name: 'Back' }).click();
    await button(page, 'Remove customer_sync@1').click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await row(1).waitFor({ state: 'detached' });
    await row(2).waitFor();
    await check('artifacts');
    await context.close();
  },

  async auditIsFilteredVerifiedAndSaved({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await server.call('POST', '/v1/jobs', { name: 'audited', job_type: 'MANUAL', payload: { type: 'NOOP' } });
    await server.call('PATCH', '/v1/jobs/audited', { description: '=1+1' });
    await login(page, server.url, server.key);
    await pressUntil(page, ['g', 'a'], page.getByRole('heading', { level: 1, name: 'Audit' }));
    await page.getByLabel('Events').first().selectOption({ label: 'Changes of jobs' });
    await page.getByLabel('Job', { exact: true }).fill('audited');
    await until('the filter in the address', () => page.url().includes('job=audited') && page.url().includes('JOB_MODIFIED'));
    const events = page.getByRole('region', { name: 'Events' });
    await untilEqual('events of the job', ['Job modified', 'Job created'], () => events.locator('tbody tr td:nth-child(2)').allInnerTexts());
    await page.reload();
    await untilEqual('events of the job', 2, () => events.locator('tbody tr').count());
    const [download] = await Promise.all([page.waitForEvent('download'), button(page, 'CSV').click()]);
    const text = readFileSync(await download.path(), 'utf8');
    assert.ok(text.startsWith('at,event_type,actor,'), text.slice(0, 80));
    assert.equal(text.trim().split('\r\n').length, 3);
    await button(page, 'Verify').click();
    await page.getByRole('region', { name: 'Verification' }).getByText('The chain is intact').waitFor();
    await events.getByRole('link', { name: 'audited' }).first().click();
    await page.getByRole('region', { name: 'Versions' }).waitFor();
    await check('audit');
    await context.close();
  },

  async sqlAnswersCompletesAndShowsWhereItIsWrong({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => /status of 4\d\d/.test(text) });
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/sql`);
    const text = page.getByLabel('Statements');
    await text.fill("SELECT job_name FROM sys.jobs WHERE job_name = 'nightly-ledger'");
    await page.keyboard.press('Control+Enter');
    const answer = page.getByRole('region', { name: 'Answer 1' });
    await answer.getByRole('link', { name: 'nightly-ledger' }).waitFor();
    await page.getByRole('region', { name: 'History' }).getByRole('button').first().waitFor();
    // The error is selected in the text.
    await text.fill('SELECT *\nFROM sys.nowhere');
    await button(page, /Run/).click();
    await page.getByRole('alert').first().waitFor();
    await text.fill('SELEC 1');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('alert').getByText('SELEC').first().waitFor();
    await until('the place of the error', () => text.evaluate((it) => it.value.slice(it.selectionStart, it.selectionEnd) === 'SELEC'));
    // Completion of tables and columns.
    await text.fill('');
    await text.pressSequentially('SELECT * FROM sys.job_r');
    await page.getByRole('option', { name: 'sys.job_run_acks', selected: true }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.getByRole('option', { name: 'sys.job_runs', selected: true, exact: true }).waitFor();
    await page.keyboard.press('Tab');
    await untilEqual('the completed text', 'SELECT * FROM sys.job_runs', () => text.inputValue());
    // Text of jobs is text; a formula is none in the file.
    await text.fill(`SELECT '${XSS[0]}' AS a, '=1+1' AS b`);
    await page.keyboard.press('Control+Enter');
    await answer.getByRole('cell', { name: XSS[0] }).waitFor();
    const [download] = await Promise.all([page.waitForEvent('download'), answer.getByRole('button', { name: 'CSV' }).click()]);
    assert.ok(readFileSync(await download.path(), 'utf8').includes("'=1+1"));
    await button(page, 'Share').click();
    await until('the text behind the number sign', () => page.url().includes('/ui/sql#q='));
    await page.reload();
    await until('the shared text', async () => (await text.inputValue()).includes('=1+1'));
    await check('sql');
    await context.close();
  },

  async nodesAreDrainedAndResumed({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/cluster`);
    const nodes = page.getByRole('region', { name: 'Nodes' });
    await nodes.getByText('leader').waitFor();
    await button(page, 'Drain…').click();
    await page.getByRole('dialog').getByText('It takes no new run').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
    await nodes.getByText('DRAINING').waitFor();
    await button(page, 'Resume…').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
    await nodes.getByText('ACTIVE').waitFor();
    await check('cluster');
    await context.close();
  },

  async aNodeThatLostContactIsNamedAndRemoved({ browser, folder }) {
    const server = await startServer(join(folder, 'lost-node'));
    try {
      await server.call('POST', '/v1/jobs', { name: 'quiet', job_type: 'MANUAL', payload: { type: 'NOOP' } });
      const agent = await startAgent(server, join(folder, 'agent'), 'far-away');
      const { page, check, context } = await openPage(browser);
      await login(page, server.url, server.key);
      await title(page, 'All jobs are well');
      await agent.stop();
      // The overview names it without a reload.
      await title(page, '1 node has lost contact');
      const row = page.getByRole('row', { name: /far-away/ });
      await row.getByText('DOWN').waitFor();
      await row.getByRole('link', { name: 'Open cluster' }).click();
      await title(page, '1 node has lost contact');
      await page.getByRole('row', { name: /far-away/ }).getByRole('button', { name: 'Remove…' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
      await title(page, 'The node is well');
      // The clock of a server is that of its store on the same machine; an agent follows its server.
      await page.getByRole('cell', { name: '< 10 ms off' }).waitFor();
      await check('lost node');
      await context.close();
    } finally {
      await server.stop();
    }
  },

  async deadLettersAreGroupedByTheirErrors({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    const { call } = server;
    const ids = [];
    for (const n of [1, 2, 3]) {
      const name = `letter-${n}`;
      await call('POST', '/v1/jobs', { name, job_type: 'MANUAL', retry_config: { max_attempts: 1 }, payload: { command: '/bin/sh', arguments: ['-c', `echo 'order ${n}00 is lost ${XSS[1]}' >&2; exit ${n === 3 ? 4 : 3}`] } });
      ids.push((await call('POST', `/v1/jobs/${name}/trigger`, {})).execution_id);
    }
    await until('three dead letters', async () => (await Promise.all(ids.map((id) => call('GET', `/v1/executions/${id}`)))).every((it) => it.dead_letter));
    const { data } = await call('GET', '/v1/dead-letters/groups');
    const group = data.find((it) => it.jobs.includes('letter-1'));
    assert.deepEqual(group.jobs.filter((it) => it.startsWith('letter-')).sort(), ['letter-1', 'letter-2', 'letter-3'], JSON.stringify(group));
    await login(page, server.url, server.key);
    const groups = page.getByRole('region', { name: 'Groups of dead letters' });
    await pressUntil(page, ['g', 'd'], groups);
    const line = groups.getByRole('listitem').filter({ hasText: 'letter-1' }).first();
    await line.locator('[data-row]').click();
    await groups.getByRole('link', { name: ids[0] }).waitFor();
    const before = (await call('GET', '/v1/jobs/letter-1/executions')).data.length;
    await line.getByRole('button', { name: /^Redrive/ }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Starts per second').fill('50');
    await dialog.getByRole('button', { name: 'Redrive' }).click();
    await until('a new run', async () => (await call('GET', '/v1/jobs/letter-1/executions')).data.length > before);
    await until('new dead letters', async () => (await call('GET', '/v1/dead-letters/groups')).data.find((it) => it.jobs.includes('letter-1'))?.execution_ids.every((id) => !ids.includes(id)));
    await page.goto(`${server.url}/ui/dead-letters`);
    await line.getByRole('button', { name: 'Acknowledge…' }).click();
    await dialog.getByRole('button', { name: 'Acknowledge' }).click();
    await untilEqual('groups of these jobs', 0, async () => (await call('GET', '/v1/dead-letters/groups')).data.filter((it) => it.jobs.includes('letter-1')).length);
    await check('dead letters');
    await context.close();
  },

  async calendarsPoolsAndHooksAreMadeAndRemoved({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => /status of 4(00|22)/.test(text) });
    const { call } = server;
    await login(page, server.url, server.key);
    const dialog = page.getByRole('dialog');
    const make = async (kind, one, fields) => {
      await page.goto(`${server.url}/ui/administration/${kind}`);
      await button(page, `New ${one}…`).click();
      for (const [label, value] of fields) await dialog.getByLabel(label, { exact: true }).fill(value);
      await dialog.getByRole('button', { name: 'Create' }).click();
    };
    await make('calendars', 'calendar', [['Name', 'closed'], ['Days', 'SAT,SUN\nnever'], ['Description', XSS[1]]]);
    await dialog.getByRole('alert').waitFor();
    await dialog.getByLabel('Days').fill('SAT,SUN\n12-25');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('row', { name: /^closed SAT,SUN, 12-25/ }).waitFor();
    assert.deepEqual((await call('GET', '/v1/calendars/closed')).days, ['SAT,SUN', '12-25']);
    await make('pools', 'pool', [['Name', 'warehouse'], ['Size', '4']]);
    await page.getByRole('row', { name: /^warehouse 4 0 0/ }).waitFor();
    await button(page, 'Remove warehouse').click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('There is no pool').waitFor();
    await make('hooks', 'hook', [['Name', 'push'], ['Job', 'mail-digest']]);
    await dialog.getByText('it is not shown again').waitFor();
    await button(page, 'I have copied it').click();
    await page.getByRole('row', { name: /^push .*STANDARD/ }).waitFor();
    await check('calendars, pools, hooks');
    await context.close();
  },

  async usersKeysAndSecretsAreMadeAndRemoved({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => /status of 4(09|22)/.test(text) });
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/administration`);
    await button(page, 'New user…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('walter');
    await dialog.getByLabel('Password').fill('short');
    await dialog.getByRole('button', { name: 'Create' }).click();
    // What is wrong is said at its field, and the form keeps its text.
    await dialog.getByRole('alert').waitFor();
    await untilEqual('the name', 'walter', () => dialog.getByLabel('Name').inputValue());
    await dialog.getByLabel('Password').fill('correct horse battery');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('cell', { name: 'walter', exact: true }).waitFor();
    await page.getByRole('row', { name: /^walter/ }).getByRole('link', { name: 'Keys' }).click();
    await page.getByText('Only walter').waitFor();
    await button(page, 'New key…').click();
    await dialog.getByLabel('Label').fill('for walter');
    await dialog.getByLabel('User').fill('walter');
    await dialog.getByRole('button', { name: 'Create' }).click();
    const key = await dialog.locator('pre').innerText();
    assert.match(key, /^pk_/);
    assert.equal((await server.call('GET', '/v1/whoami', undefined, key)).user, 'walter');
    await button(page, 'I have copied it').click();
    await button(page, 'Remove for walter').click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('cell', { name: 'for walter', exact: true }).waitFor({ state: 'detached' });
    await assert.rejects(server.call('GET', '/v1/whoami', undefined, key), /401/);
    await page.getByRole('link', { name: 'Secrets', exact: true }).click();
    await button(page, 'New secret…').click();
    await dialog.getByLabel('Name').fill('smtp');
    await dialog.getByLabel('Value').fill('hidden value');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await page.getByRole('cell', { name: 'smtp', exact: true }).waitFor();
    assert.ok(!(await page.content()).includes('hidden value'));
    await page.getByRole('link', { name: 'Settings', exact: true }).click();
    await page.getByLabel('Filter').fill('ui.environment');
    await page.getByRole('row', { name: /ui.environment staging/ }).waitFor();
    await check('administration');
    await context.close();
  },

  async theMenuShowsWhatTheUserMaySee({ server, browser }) {
    const { page, check, context } = await openPage(browser, { width: 390, height: 844 });
    await page.goto(`${server.url}/ui/`);
    await page.getByLabel('User').fill('vera');
    await page.getByLabel('Password', { exact: true }).last().fill('correct horse battery');
    await button(page, 'Log in').click();
    await page.getByText('More', { exact: true }).click();
    const menu = page.getByRole('navigation', { name: 'Pages' });
    await menu.getByRole('link', { name: 'SQL' }).last().waitFor();
    for (const name of ['Audit', 'Cluster']) assert.equal(await menu.getByRole('link', { name, exact: true }).count(), 0, name);
    await menu.getByRole('link', { name: 'Administration' }).click();
    await title(page, 'Administration');
    await settled(page);
    assert.equal(await page.getByRole('link', { name: 'Users', exact: true }).count(), 0);
    await check('menu');
    await context.close();
  },
};
