// What people do with the dashboard, from a new job to the log of a run.

import assert from 'node:assert/strict';
import { login, openPage, pressUntil, until, untilEqual } from './world.mjs';

const button = (page, name) => page.getByRole('button', { name, exact: true });
const heading = (page, name) => page.getByRole('heading', { level: 1, name, exact: true });
const title = (page, name) => heading(page, name).waitFor();

export const journeys = {
  async createWatchFindCancelRetry({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => /status of 4(00|22)/.test(text) });
    await login(page, server.url, server.key);
    await page.getByRole('link', { name: 'Jobs', exact: true }).click();
    await page.getByRole('link', { name: 'New job' }).click();
    await page.getByLabel('Name', { exact: true }).fill('made-here');
    await page.getByLabel('Action').selectOption('EXTERNAL');
    await page.getByLabel('Command').fill('/bin/sh');
    await page.getByLabel('Arguments').fill('-c\necho begun; while true; do echo tick; sleep 0.2; done');
    // The preview says what is wrong while it is typed, then when it runs.
    await page.getByLabel('Cron expression').fill('61 * * * *');
    await page.getByRole('region', { name: 'Preview' }).getByText('out of range').waitFor();
    await page.getByLabel('Cron expression').fill('0 3 * * *');
    await page.getByRole('region', { name: 'Preview' }).getByText('at 03:00').waitFor();
    await button(page, 'Create job').click();
    await title(page, 'made-here');
    await button(page, 'Run now…').waitFor();
    const runNow = page.getByRole('dialog').getByRole('button', { name: 'Run now' });
    await pressUntil(page, ['r'], runNow);
    await runNow.click();
    await page.getByRole('link', { name: 'Open it' }).click();
    await title(page, /made-here/);
    const output = page.getByRole('region', { name: 'Lines of the output' });
    await output.getByText('begun').waitFor();
    // The output grows while it is looked at.
    const ticks = () => output.getByText('tick').count();
    const first = await ticks();
    await until('more ticks', async () => (await ticks()) > first + 2);
    await page.keyboard.press('/');
    await page.keyboard.type('begun');
    await until('the search in the address', () => page.url().includes('q=begun'));
    await page.getByText('1 of 1 lines').waitFor();
    await button(page, 'Cancel…').click();
    await page.getByLabel('Reason').fill('seen enough');
    await button(page, 'Cancel the run').click();
    await page.locator('h1').getByText('CANCELLED').waitFor();
    await page.locator('.sub').getByText('seen enough').waitFor();
    const cancelled = page.url();
    await button(page, 'Retry…').click();
    await button(page, 'Retry').click();
    await page.waitForURL((url) => !cancelled.includes(url.pathname));
    await page.locator('h1').getByText('RUNNING').waitFor();
    await button(page, 'Cancel…').click();
    await button(page, 'Cancel the run').click();
    await page.locator('h1').getByText('CANCELLED').waitFor();
    await check('create and watch');
    await context.close();
  },

  async jobsAppearAndAreFound({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await pressUntil(page, ['g', 'j'], heading(page, 'Jobs'));
    await page.getByRole('link', { name: 'nightly-ledger' }).waitFor();
    await server.call('POST', '/v1/jobs', { name: 'appears-by-itself', job_type: 'MANUAL', payload: { type: 'NOOP' } });
    await page.getByRole('link', { name: 'appears-by-itself' }).waitFor();
    const run = await seeded.run('appears-by-itself');
    await seeded.ended(run);
    await page.getByRole('row', { name: /appears-by-itself/ }).getByText('COMPLETED').waitFor();
    // A part of the name, in any case, by the keyboard alone.
    await page.keyboard.press('/');
    await page.keyboard.type('LEDGER');
    await until('the filter in the address', () => page.url().includes('q=LEDGER'));
    await page.getByRole('link', { name: 'appears-by-itself' }).waitFor({ state: 'detached' });
    await untilEqual('rows', ['nightly-ledger'], () => page.locator('[data-row]').allInnerTexts());
    await page.getByLabel('Filter jobs').blur();
    await pressUntil(page, ['j', 'Enter'], heading(page, 'nightly-ledger'));
    await page.goBack();
    await title(page, 'Jobs');
    await untilEqual('the filter', 'LEDGER', () => page.getByLabel('Filter jobs').inputValue());
    // Search from everywhere.
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: 'Search' }).fill('digest');
    await page.getByRole('option', { name: /mail-digest/, selected: true }).waitFor();
    await page.keyboard.press('Enter');
    await title(page, 'mail-digest');
    await check('jobs');
    await context.close();
  },

  async logIsSearchedLinkedAndSafe({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/runs/${seeded.talker}?q=needle`);
    await page.getByText('1 of 1 lines').waitFor();
    const output = page.getByRole('region', { name: 'Lines of the output' });
    // What is out of sight has no inner text: the line is scrolled to.
    await until('the line that was found', async () => (await output.locator('.hit-now').innerText()) === 'the needle is here');
    assert.equal(await output.locator('.sgr-1').first().innerText(), 'red');
    assert.equal(await output.getByText('<script>window.__xss=1</script>').count(), 1);
    await output.getByText('⟨U+202E⟩gnp.exe').waitFor();
    // Selecting all of the output copies its text without the numbers of the lines.
    const text = await output.evaluate((element) => {
      getSelection().selectAllChildren(element);
      return getSelection().toString();
    });
    assert.ok(text.replace('oops\n', '').includes('line 0 of the output\nline 1 of the output'), text.slice(0, 200));
    await page.goto(`${server.url}/ui/runs/${seeded.talker}#L120`);
    await page.reload();
    // The line of stderr may come before or after it: the two streams have no common order.
    await until('the linked line', async () => /^line 11[89] of the output$/.test(await output.locator('.linked[data-n="120"]').innerText()));
    assert.equal(await output.locator('.linked').count(), 1);
    // A range: by a click with the shift key, or as numbers; its link shows the same lines.
    await output.locator('.line[data-n="122"]').click({ position: { x: 10, y: 5 }, modifiers: ['Shift'] });
    await until('the range in the address', () => page.url().endsWith('#L120-122'));
    await page.getByLabel('Last line').fill('124');
    await page.getByLabel('Last line').press('Enter');
    await until('the larger range', () => page.url().endsWith('#L120-124'));
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.getByRole('button', { name: 'Copy link' }).click();
    await page.getByText('Link copied.').waitFor();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(link.endsWith('#L120-124'), link);
    await page.getByRole('button', { name: 'Copy lines' }).click();
    await page.getByText('Lines copied.').waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^line 11[89] of the output\n(line \d+ of the output\n){3}line 12[23] of the output$/);
    await page.goto(link);
    await page.reload();
    await untilEqual('lines of the link', 5, () => output.locator('.linked').count());
    await page.getByRole('button', { name: 'Clear' }).click();
    assert.equal(await output.locator('.linked').count(), 0);
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download' }).click()]);
    assert.ok((await download.suggestedFilename()).endsWith('.log'));
    await page.getByLabel('Streams').selectOption('stderr');
    await output.getByText('oops').waitFor();
    await check('log');
    await context.close();
  },

  async listsAreCountedFilteredAndSorted({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/jobs`);
    await title(page, 'Jobs');
    const { facets } = await until('counts', async () => {
      const found = await server.call('GET', '/v1/jobs?facets=true&limit=1');
      return found.facets ? found : undefined;
    });
    const status = page.getByRole('navigation', { name: 'Status of jobs' });
    await status.getByRole('link', { name: `Paused ${facets.status.PAUSED}` }).waitFor();
    const last = page.getByRole('navigation', { name: 'How the last run ended' });
    await last.getByRole('link', { name: /^Failed \d+$/ }).click();
    await page.getByRole('link', { name: 'import-orders' }).waitFor();
    await until('a filter in the address', () => page.url().includes('last=FAILED'));
    await untilEqual('only jobs whose last run failed', 0, () => page.getByRole('link', { name: 'nightly-ledger', exact: true }).count());
    // The column of the next time: due first.
    await last.getByRole('link', { name: 'Any last run' }).click();
    await button(page, 'Next').click();
    await until('a sorted list in the address', () => page.url().includes('sort=next'));
    const sorted = (await server.call('GET', '/v1/jobs?sort=next&limit=3')).data.map((it) => it.name);
    await untilEqual('the jobs that are due first', sorted, async () => (await page.locator('a[data-row]').allTextContents()).slice(0, 3));
    assert.equal(await page.locator('th[aria-sort="ascending"]').textContent().then((it) => it.trim().replace(/\s+/g, '')), 'Next↑');
    await check('sorted');
    await context.close();
  },

  async runsAreFilteredByAnHourAndBadFiltersAreNamed({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    const [run] = (await server.call('GET', '/v1/jobs/import-orders/executions?status=FAILED')).data;
    const since = new Date(Math.floor(Date.parse(run.scheduled_time) / 3_600_000) * 3_600_000);
    const end = new Date(since.getTime() + 3_600_000);
    await page.goto(`${server.url}/ui/runs?status=FAILED,NONSENSE&job=import-orders&since=${since.toISOString()}&until=${end.toISOString()}`);
    const table = page.getByRole('region', { name: 'Runs' });
    await table.getByRole('link', { name: 'import-orders' }).first().waitFor();
    assert.equal(await table.getByRole('link', { name: 'nightly-ledger' }).count(), 0);
    await page.getByText('Ignored: status=NONSENSE').waitFor();
    await untilEqual('the job', 'import-orders', () => page.getByLabel('Job', { exact: true }).inputValue());
    await button(page, 'Remove').click();
    await until('the filters without what was ignored', () => !page.url().includes('NONSENSE') && page.url().includes('job=import-orders') && page.url().includes('status=FAILED'));
    // A relative range stays relative in a link, unless the user wants fixed times.
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.goto(`${server.url}/ui/runs?since=-24h`);
    await title(page, 'Runs');
    await page.keyboard.press('c');
    await page.getByText('Its range moves with the time').waitFor();
    assert.ok((await page.evaluate(() => navigator.clipboard.readText())).endsWith('since=-24h'));
    await button(page, 'Copy with fixed times').click();
    await page.getByText('Link with fixed times copied').waitFor();
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /since=20\d\d-.*&until=20\d\d-/);
    // Runs of a job lead to the ones before and after, and the job says what they have in common.
    await page.goto(`${server.url}/ui/runs/${seeded.failed}`);
    await page.getByRole('link', { name: 'Older' }).click();
    await until('the run before', () => !page.url().includes(seeded.failed));
    await page.getByRole('link', { name: 'Newer' }).click();
    await until('the run again', () => page.url().includes(seeded.failed));
    await page.goto(`${server.url}/ui/jobs/import-orders`);
    await page.getByText(/^Did not complete \d+ times in a row\.$/).waitFor();
    await check('runs');
    await context.close();
  },

  async whyForTimesOfEveryKind({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    const why = page.getByRole('region', { name: 'Why' });
    const ask = (job, at) => page.goto(`${server.url}/ui/jobs/${job}/at/${encodeURIComponent(at)}`);
    await ask('nightly-ledger', '2030-01-01T01:30:00Z');
    await why.getByText(/a run will be due/i).first().waitFor();
    await ask('nightly-ledger', '2030-01-01T01:31:00Z');
    await why.getByText(/is not a time of the schedule/i).first().waitFor();
    await ask('nightly-ledger', '2020-01-01T01:30:00Z');
    await why.getByText(/the job (did not exist|was created)/i).first().waitFor();
    await ask('vacuum', '2030-01-06T04:00:00Z');
    await why.getByText(/paused since/i).first().waitFor();
    await ask('nightly-ledger', 'nonsense');
    await page.getByText('nonsense is not a time').waitFor();
    await check('why');
    await context.close();
  },

  async whyForTimesThatDidNotRun({ server, browser, service }) {
    const { page, check, context } = await openPage(browser);
    const { call } = server;
    // A run that takes for ever: the times after it are skipped. A pause: its times are too late afterwards.
    await call('POST', '/v1/jobs', { name: 'too-slow', interval_seconds: 1, overlap: 'SKIP', timeout_seconds: 7200, payload: { endpoint: `${service.url}/slow`, method: 'GET' } });
    await call('POST', '/v1/jobs', { name: 'too-late', interval_seconds: 1, catch_up: 'ALL', start_deadline_seconds: 1, payload: { type: 'NOOP' } });
    const first = (job, status) => until(`a ${status} time of ${job}`, async () => (await call('GET', `/v1/jobs/${job}/executions?status=${status}`)).data[0]);
    const skipped = await first('too-slow', 'SKIPPED');
    const paused = Date.parse((await call('POST', '/v1/jobs/too-late/pause')).updated_at);
    await until('some times of the pause', () => Date.now() > paused + 5000);
    await call('POST', '/v1/jobs/too-late/resume?catch_up=ALL');
    const missed = await first('too-late', 'MISSED');
    for (const name of ['too-slow', 'too-late']) await call('POST', `/v1/jobs/${name}/pause`);
    // Other journeys look at what runs now.
    for (const run of (await call('GET', '/v1/jobs/too-slow/executions?status=RUNNING')).data) await call('POST', `/v1/executions/${run.execution_id}/cancel`, {});
    await login(page, server.url, server.key);
    const why = page.getByRole('region', { name: 'Why' });
    for (const [run, status, words] of [[skipped, 'SKIPPED', /not ended|earlier run|overlap/i], [missed, 'MISSED', /deadline|start/i]]) {
      // A time without a run has a page, and the page says why.
      await page.goto(`${server.url}/ui/runs/${run.execution_id}`);
      await page.locator('h1').getByText(status).waitFor();
      await why.getByText(words).first().waitFor();
      await page.goto(`${server.url}/ui/jobs/${run.job_name}/at/${encodeURIComponent(run.scheduled_time)}`);
      await why.getByText(new RegExp(status, 'i')).first().waitFor();
      await why.getByRole('link', { name: /Open the run|open run/ }).first().waitFor();
    }
    // From the reason to its remedy.
    await why.getByRole('link', { name: 'Backfill this time…' }).click();
    await page.getByRole('dialog', { name: 'Backfill too-late' }).waitFor();
    await check('times that did not run');
    await context.close();
  },

  async whyForATimeThatRanLate({ server, browser, service }) {
    const { page, check, context } = await openPage(browser);
    const { call } = server;
    // A run takes three seconds, the next time comes after one: it waits in line and begins late.
    await call('POST', '/v1/jobs', { name: 'in-line', interval_seconds: 1, overlap: 'QUEUE', payload: { endpoint: `${service.url}/late`, method: 'GET' } });
    const late = await until('a time that ran late', async () => {
      const { data } = await call('GET', '/v1/jobs/in-line/executions?status=COMPLETED');
      return data.find((it) => Date.parse(it.started_at) > Date.parse(it.scheduled_time) + 1500);
    });
    // One that is in line now has a reason, too.
    const waiting = (await call('GET', '/v1/jobs/in-line/executions?status=QUEUED')).data.at(-1);
    assert.match(waiting.waiting_reason, /waits in line for earlier runs/);
    await call('POST', '/v1/jobs/in-line/disable', {}).catch(() => call('PATCH', '/v1/jobs/in-line', { status: 'DISABLED' }));
    for (const status of ['QUEUED', 'PENDING']) {
      for (const run of (await call('GET', `/v1/jobs/in-line/executions?status=${status}&limit=500`)).data) await call('POST', `/v1/executions/${run.execution_id}/cancel`, {}).catch(() => undefined);
    }
    await login(page, server.url, server.key);
    const why = page.getByRole('region', { name: 'Why' });
    await page.goto(`${server.url}/ui/jobs/in-line/at/${encodeURIComponent(late.scheduled_time)}`);
    await why.getByText(/started .* late/i).first().waitFor();
    await why.getByText(/earlier run|in line|one at a time/i).first().waitFor();
    await check('late');
    await context.close();
  },

  async editSeesConflictsAndKeepsWhatItDoesNotShow({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => /status of 4(00|12|09|22)/.test(text) });
    await login(page, server.url, server.key);
    await server.call('POST', '/v1/jobs', { name: 'edited', cron_expression: '0 1 * * *', run_on: { zone: 'eu' }, payload: { endpoint: 'https://example.com/', headers: { 'x-a': 'b' } } });
    await page.goto(`${server.url}/ui/jobs/edited/edit`);
    await page.getByLabel('Description').fill('mine');
    await server.call('PATCH', '/v1/jobs/edited', { priority: 7 });
    await button(page, 'Save').click();
    await page.getByText('Version 2 was saved meanwhile').waitFor();
    await untilEqual('the typed text', 'mine', () => page.getByLabel('Description').inputValue());
    await page.getByRole('region', { name: 'Conflict' }).getByRole('row', { name: /priority/ }).waitFor();
    await button(page, 'Apply my changes on version 2').click();
    await title(page, 'edited');
    const saved = await server.call('GET', '/v1/jobs/edited');
    assert.deepEqual([saved.description, saved.priority, saved.run_on, saved.payload.headers, saved.version], ['mine', 7, { zone: 'eu' }, { 'x-a': 'b' }, 3]);
    await page.goto(`${server.url}/ui/jobs/edited/edit`);
    await page.getByLabel('Cron expression').fill('nonsense');
    await button(page, 'Save').click();
    await until('the focus on the field', () => page.getByLabel('Cron expression').evaluate((it) => it === document.activeElement && it.getAttribute('aria-invalid') === 'true'));
    await check('edit');
    await context.close();
  },

  async pauseResumeAndDelete({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 404') });
    await login(page, server.url, server.key);
    await server.call('POST', '/v1/jobs', { name: 'held', cron_expression: '0 1 * * *', payload: { type: 'NOOP' } });
    await page.goto(`${server.url}/ui/jobs/held`);
    await button(page, 'Pause…').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await page.getByText('Paused: nothing starts').waitFor();
    await button(page, 'Resume…').waitFor();
    const resume = page.getByRole('dialog').getByRole('button', { name: 'Resume' });
    await pressUntil(page, ['Shift+P'], resume);
    await resume.click();
    await button(page, 'Pause…').waitFor();
    await button(page, 'Delete…').click();
    assert.ok(await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).isDisabled());
    await page.getByLabel('Type its name').fill('held');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await title(page, 'Jobs');
    await check('pause');
    await context.close();
  },

  async overviewSaysWhatIsWrong({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await title(page, /need attention/);
    const row = page.getByRole('row', { name: /import-orders/ });
    // Its own schedule may add a run to the two of the seed.
    await row.getByText(/Failed \d+ times in a row/i).waitFor();
    await row.getByRole('link', { name: 'Open log' }).click();
    await title(page, /import-orders/);
    await page.getByRole('region', { name: 'Attempts' }).getByRole('button', { name: /#1 failed/ }).click();
    await until('the attempt in the address', () => page.url().includes('attempt=1'));
    await pressUntil(page, ['g', 'o'], page.getByRole('heading', { name: 'Running now' }));
    await page.getByRole('link', { name: 'rebuild-index' }).first().waitFor();
    await page.getByText('staging').first().waitFor();
    await check('overview');
    await context.close();
  },

  async labShowsClockChanges({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 4') });
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/lab?cron=30+2+*+*+*&tz=Europe/Berlin&from=2026-03-20&zones=America/New_York`);
    await page.getByRole('row', { name: /Sun 29 Mar 02:30 does not exist/ }).waitFor();
    await page.getByRole('cell', { name: 'Sun 29 Mar 20:30' }).waitFor();
    await page.goto(`${server.url}/ui/lab?cron=30+2+*+*+*&tz=Europe/Berlin&from=2026-10-20&overlap=BOTH`);
    await page.getByRole('cell', { name: /Sun 25 Oct 02:30 ?first pass/ }).waitFor();
    await page.getByRole('cell', { name: /Sun 25 Oct 02:30 ?second pass/ }).waitFor();
    await page.getByLabel('Cron expression').fill('61 * * * *');
    await page.getByRole('alert').getByText('out of range').first().waitFor();
    await check('lab');
    await context.close();
  },

  async calendarShowsWhatRanAndWhatDoesNotExist({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/jobs/nightly-ledger`);
    await page.getByRole('link', { name: 'Calendar', exact: true }).click();
    const calendar = page.getByRole('grid', { name: /^Days from/ });
    await calendar.getByRole('button', { name: /completed/ }).first().click();
    const day = page.getByRole('region', { name: 'Times of the day' });
    await day.getByText('COMPLETED').first().waitFor();
    await until('the day in the address', () => /day=\d{4}-\d\d-\d\d/.test(page.url()));
    // The job is due at 02:30 in Berlin, which does not exist on the last Sunday of March.
    await page.goto(`${server.url}/ui/jobs/nightly-ledger/calendar?from=2027-03-01&day=2027-03-28`);
    await calendar.getByRole('button', { name: /Sunday 28 March.*23 hours.*1 that do not exist/ }).waitFor();
    await page.getByRole('heading', { name: /Sun,? 28 Mar 2027, 23 hours/ }).waitFor();
    await day.getByText('02:30 does not exist on this day').waitFor();
    // With many times a day is a picture of its hours; by the keyboard alone to the day with 25.
    await page.goto(`${server.url}/ui/jobs/quarter-hourly/calendar?from=2027-10-04&day=2027-10-30`);
    await day.getByText('00', { exact: true }).waitFor();
    await calendar.getByRole('button', { name: /Saturday 30 October/ }).focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: /Sun,? 31 Oct 2027, 25 hours/ }).waitFor();
    await day.getByText('first pass, UTC+2').waitFor();
    await day.getByText('second pass, UTC+1').waitFor();
    await untilEqual('times of a day of 25 hours', 100, () => day.getByRole('link').count());
    await check('calendar');
    await context.close();
  },

  async runsWithTypedParametersAndBackfills({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await server.call('POST', '/v1/jobs', {
      name: 'parametrised', cron_expression: '0 * * * *', payload: { type: 'NOOP' }, parameters: { region: 'eu', limit: 10, dry: true },
    });
    await page.goto(`${server.url}/ui/jobs/parametrised`);
    await button(page, 'Run now…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('region').fill('us');
    await dialog.getByLabel('limit').fill('many');
    await dialog.getByLabel('dry').uncheck();
    await dialog.getByRole('button', { name: 'Run now' }).click();
    await dialog.getByRole('alert').getByText('limit must be a number').waitFor();
    await dialog.getByLabel('limit').fill('20');
    await dialog.getByRole('button', { name: 'Run now' }).click();
    await page.getByRole('link', { name: 'Open it' }).click();
    await title(page, /parametrised/);
    const id = page.url().split('/').pop().split('?')[0];
    const run = await server.call('GET', `/v1/executions/${id}`);
    assert.deepEqual(run.parameters, { region: 'us', limit: 20, dry: false });
    // A backfill says what would run before anything does.
    await page.goto(`${server.url}/ui/jobs/parametrised`);
    await button(page, 'Backfill…').waitFor();
    await pressUntil(page, ['b'], dialog);
    await dialog.getByLabel('From').fill('2026-10-25T00:00:00');
    await dialog.getByLabel('Until').fill('2026-10-25T06:00:00');
    // The clocks of the browser go back in that night.
    await dialog.getByText('8 runs', { exact: true }).waitFor();
    assert.equal((await server.call('GET', '/v1/jobs/parametrised/executions?origin=BACKFILL')).data.length, 0);
    await dialog.getByRole('button', { name: 'Start 8 runs' }).click();
    await page.getByRole('link', { name: 'Show them' }).click();
    await page.getByText('Only runs of origin').waitFor();
    await untilEqual('runs of the backfill', 8, () => page.locator('[data-row]').count());
    await check('backfill');
    await context.close();
  },

  async versionsAreComparedAndRestored({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await server.call('POST', '/v1/jobs', { name: 'versioned', cron_expression: '0 2 * * *', payload: { endpoint: 'https://example.com/a' } });
    await server.call('PATCH', '/v1/jobs/versioned', { cron_expression: '0 3 * * *' });
    await server.call('PATCH', '/v1/jobs/versioned', { priority: 8 });
    await page.goto(`${server.url}/ui/jobs/versioned/definition`);
    const versions = page.getByRole('region', { name: 'Versions' });
    await versions.getByRole('row', { name: /^3 ?present/ }).waitFor();
    await versions.getByRole('button', { name: 'What version 2 changed' }).click();
    const difference = page.getByRole('region', { name: 'Difference' });
    await difference.getByText('14 times disappear, 14 times appear').waitFor();
    await difference.getByRole('row', { name: /cron_expression 0 2 \* \* \* 0 3 \* \* \*/ }).waitFor();
    await until('the version in the address', () => page.url().includes('v=2'));
    await versions.getByRole('button', { name: 'Restore version 1' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('priority').waitFor();
    await dialog.getByRole('button', { name: 'Restore version 1' }).click();
    await versions.getByRole('row', { name: /^4 ?present/ }).waitFor();
    const job = await server.call('GET', '/v1/jobs/versioned');
    assert.deepEqual([job.version, job.cron_expression, job.priority], [4, '0 2 * * *', 5]);
    // A change that comes while the dialog is open is not overwritten.
    await versions.getByRole('button', { name: 'Restore version 2' }).click();
    await dialog.getByText('cron_expression').waitFor();
    await server.call('PATCH', '/v1/jobs/versioned', { priority: 9 });
    await check('versions');
    await dialog.getByRole('button', { name: 'Restore version 2' }).click();
    await dialog.getByText('was changed meanwhile').waitFor();
    await context.close();
  },

  async fleetShowsWhenItIsBusy({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/lab`);
    await page.getByRole('link', { name: 'Fleet', exact: true }).click();
    await page.getByText('The busiest minute of the week is').waitFor();
    const cell = page.getByRole('gridcell').getByRole('button', { name: / 02:00: \d+ starts, at most \d+ in a minute/ }).first();
    await cell.click();
    const minutes = page.getByRole('region', { name: 'Minutes of the hour' });
    await minutes.getByRole('row', { name: /02:30.*nightly-ledger.*quarter-hourly/ }).waitFor();
    await until('the hour in the address', () => page.url().includes('hour='));
    await page.reload();
    await minutes.getByRole('link', { name: 'nightly-ledger' }).waitFor();
    await check('fleet');
    await context.close();
  },
};
