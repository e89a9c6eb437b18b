// How pages behave while the world around them changes: slow and restarted servers, new rows under
// the pointer, text that was typed and not saved.

import assert from 'node:assert/strict';
import { login, openPage, settled, until, untilEqual } from './world.mjs';

const button = (page, name) => page.getByRole('button', { name, exact: true });
const title = (page, name) => page.getByRole('heading', { level: 1, name, exact: true }).waitFor();

export const behaviour = {
  async typedTextOutlivesAReload({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await server.call('POST', '/v1/jobs', { name: 'drafted', cron_expression: '0 1 * * *', payload: { type: 'NOOP' } });
    await page.goto(`${server.url}/ui/jobs/drafted/edit`);
    await page.getByLabel('Description').fill('typed and not saved');
    await until('a draft', () => page.evaluate(() => Object.values(sessionStorage).some((it) => it.includes('typed and not saved'))));
    await page.reload();
    await page.getByText('This is what you typed before').waitFor();
    await untilEqual('the typed text', 'typed and not saved', () => page.getByLabel('Description').inputValue());
    // A change of another user since then is a conflict, not overwritten.
    await server.call('PATCH', '/v1/jobs/drafted', { priority: 7 });
    await page.reload();
    await untilEqual('the typed text', 'typed and not saved', () => page.getByLabel('Description').inputValue());
    await button(page, 'Discard it').click();
    await untilEqual('an empty description', '', () => page.getByLabel('Description').inputValue());
    await page.getByLabel('Description').fill('saved');
    await button(page, 'Save').click();
    await title(page, 'drafted');
    const saved = await server.call('GET', '/v1/jobs/drafted');
    assert.deepEqual([saved.description, saved.priority], ['saved', 7]);
    await page.goto(`${server.url}/ui/jobs/drafted/edit`);
    await untilEqual('the saved text', 'saved', () => page.getByLabel('Description').inputValue());
    assert.equal(await page.getByText('This is what you typed before').count(), 0);
    await check('draft');
    await context.close();
  },

  async newRowsWaitWhileTheListIsRead({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await server.call('POST', '/v1/jobs', { name: 'newer', job_type: 'MANUAL', payload: { type: 'NOOP' } });
    await seeded.ended(await seeded.run('newer'));
    await page.goto(`${server.url}/ui/jobs/newer/history`);
    const rows = page.locator('[data-row]');
    await untilEqual('rows', 1, () => rows.count());
    const shown = await rows.first().getAttribute('href');
    await rows.first().focus();
    for (let i = 0; i < 2; i++) await seeded.ended(await seeded.run('newer'));
    const newer = button(page, '2 newer runs');
    await newer.waitFor();
    assert.equal(await rows.first().getAttribute('href'), shown);
    await newer.click();
    await untilEqual('rows', 3, () => rows.count());
    await check('newer rows');
    await context.close();
  },

  async goingBackShowsTheListAsItWas({ server, browser }) {
    const { page, check, context } = await openPage(browser, { height: 400 });
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/runs?status=COMPLETED`);
    await settled(page);
    await page.getByRole('link', { name: 'nightly-ledger' }).first().scrollIntoViewIfNeeded();
    const place = await page.evaluate(() => (scrollBy(0, 40), scrollY));
    assert.ok(place > 0);
    await page.getByRole('link', { name: 'nightly-ledger' }).first().click();
    await page.getByRole('navigation', { name: 'Parts of the job' }).waitFor();
    // What was there is shown before the server answers.
    await page.route('**/v1/executions?*', (route) => setTimeout(() => void route.continue().catch(() => undefined), 1500));
    await page.goBack();
    await page.getByRole('region', { name: 'Runs' }).locator('[data-row]').first().waitFor({ timeout: 1000 });
    await until('the old place', () => page.evaluate((y) => Math.abs(scrollY - y) < 2, place));
    await settled(page);
    await check('back');
    await context.close();
  },

  async aSlowServerIsNamedAndAFullOneIsAskedAgain({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 429') });
    await login(page, server.url, server.key);
    let answer;
    const held = new Promise((done) => (answer = done));
    await page.route('**/v1/jobs?*', async (route) => {
      await held;
      await route.continue().catch(() => undefined);
    });
    await page.goto(`${server.url}/ui/jobs`);
    await page.getByText('The server has not answered for 5 s').waitFor();
    await button(page, 'Cancel').click();
    await page.getByRole('alert').getByText('stopped waiting').waitFor();
    await page.unroute('**/v1/jobs?*');
    answer();
    await button(page, 'Try again').click();
    await page.getByRole('link', { name: 'nightly-ledger' }).waitFor();
    // Too many requests: the page comes again when the server said.
    let refused = 0;
    await page.route('**/v1/executions?*', (route) => {
      refused += 1;
      const body = JSON.stringify({ error: { code: 'RATE_LIMITED', message: 'too many requests' } });
      if (refused > 1) return route.continue();
      return route.fulfill({ status: 429, headers: { 'retry-after': '1', 'content-type': 'application/json' }, body });
    });
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.getByRole('region', { name: 'Runs' }).locator('[data-row]').first().waitFor();
    assert.ok(refused > 1);
    await check('slow');
    await context.close();
  },

  async anUpdatedServerAsksForAReload({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.getByLabel('Updates: live').waitFor();
    assert.equal(await page.getByText('The server was updated').count(), 0);
    await page.route(`${server.url}/ui/`, (route) => route.fulfill({ contentType: 'text/html', body: '<script src="assets/index-of-another-build.js"></script>' }));
    // A stream that opens again is that of a server that was restarted.
    await page.getByLabel('Updates: live').click();
    await page.getByLabel('Updates: paused').click();
    await page.getByText('The server was updated').waitFor();
    await button(page, 'Reload').waitFor();
    await check('update');
    await context.close();
  },

  async lettersCanBeSwitchedOff({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    await login(page, server.url, server.key);
    await page.locator('main h1').waitFor();
    await button(page, 'Keys').click();
    await page.getByRole('checkbox', { name: /Single letters are keys/ }).uncheck();
    await button(page, 'Close').click();
    await page.keyboard.press('g');
    await page.keyboard.press('j');
    await page.keyboard.press('Shift+?');
    await page.getByRole('dialog', { name: 'Keys' }).waitFor();
    assert.ok(!page.url().endsWith('/jobs'), page.url());
    await page.getByRole('checkbox', { name: /Single letters are keys/ }).check();
    await button(page, 'Close').click();
    await page.keyboard.press('g');
    await page.keyboard.press('j');
    await title(page, 'Jobs');
    await check('letters');
    await context.close();
  },
};
