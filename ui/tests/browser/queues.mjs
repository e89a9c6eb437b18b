// Queues in the dashboard: depth, workspaces, messages, dead letters.

import assert from 'node:assert/strict';
import { login, openPage, settled, until, untilEqual, XSS } from './world.mjs';

const button = (page, name) => page.getByRole('button', { name, exact: true });
const title = (page, name) => page.getByRole('heading', { level: 1, name, exact: true }).waitFor();

/** Leases messages and reports each of them. */
async function work(call, queue, max, report, more = {}) {
  const { messages } = await call('POST', `/v1/queues/${queue}/lease`, { max, wait_s: 10 });
  const reported = messages.map((it) => ({ id: it.id, fence: it.fence, ...more }));
  if (report && reported.length) await call('POST', `/v1/queues/${queue}/${report}`, { messages: reported });
  return messages;
}

export const queues = {
  async aQueueShowsWhoWaitsAndHowFastItDrains({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    const { call } = server;
    await call('POST', '/v1/queues', { name: 'mail', description: 'Letters to customers', workspace_concurrency: 4, weights: { acme: 2 } });
    const send = (workspace, n) => ({ workspace, payload: { to: `${workspace}-${n}@example.com`, text: XSS[n % XSS.length] } });
    await call('POST', '/v1/queues/mail/messages', { messages: [0, 1, 2, 3, 4, 5, 6].map((n) => send('acme', n)) });
    await call('POST', '/v1/queues/mail/messages', { messages: [send('initech', 0), { ...send('initech', 1), delay_seconds: 3600 }] });
    await call('POST', '/v1/jobs', { name: 'mail-feed', cron_expression: '0 7 * * *', payload: { type: 'QUEUE', queue: 'mail', message: {} } });
    await login(page, server.url, server.key);
    await page.getByRole('link', { name: 'Queues', exact: true }).click();
    await page.getByRole('row', { name: /^mail 8 / }).waitFor();
    await page.getByRole('link', { name: 'mail', exact: true }).click();
    await title(page, 'mail');
    await page.getByText('9 messages have not ended').waitFor();
    const workspaces = page.getByRole('region', { name: 'Workspaces' });
    await workspaces.getByRole('row', { name: /^acme 7 .* 0 of 4 .* 2$/ }).waitFor();
    // Two of acme for one of initech: the share follows the leases.
    await work(call, 'mail', 3);
    await workspaces.getByRole('row', { name: /^acme 5 .* 2 of 4 67 %/ }).waitFor();
    await workspaces.getByRole('row', { name: /^initech 0 – 1 of 4 33 % 1/ }).waitFor();
    // A look into the queue: payloads are text, whatever they hold.
    await page.getByRole('link', { name: 'Messages', exact: true }).click();
    await untilEqual('waiting messages', 5, () => page.locator('[data-row]').count());
    // A message that waits says where it stands.
    await page.locator('[data-row]').last().click();
    await page.getByText('Place 1 in line').waitFor();
    await button(page, 'Leased').click();
    await untilEqual('leased messages', 3, () => page.locator('[data-row]').count());
    await until('the state in the address', () => page.url().includes('status=RUNNING'));
    await button(page, 'Delayed').click();
    await page.locator('[data-row]').first().click();
    await page.getByText('"to": "initech-1@example.com"').waitFor();
    await button(page, 'Cancel…').click();
    await button(page, 'Cancel the message').click();
    await page.getByText('No message is in this state').waitFor();
    await page.getByRole('link', { name: 'Settings', exact: true }).click();
    await page.getByRole('region', { name: 'Feeding jobs' }).getByRole('link', { name: 'mail-feed' }).waitFor();
    await button(page, 'Pause…').click();
    await page.getByRole('dialog').getByText('messages can still be sent').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Pause' }).click();
    await page.getByText('Paused: workers get no message').waitFor();
    assert.equal((await call('GET', '/v1/queues/mail')).status, 'PAUSED');
    await button(page, 'Resume…').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
    await button(page, 'Drain…').click();
    await page.getByRole('dialog').getByText('a send is answered with 409').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Drain' }).click();
    await page.getByText('Draining: it takes no new messages').waitFor();
    await assert.rejects(call('POST', '/v1/queues/mail/messages', { messages: [send('acme', 9)] }), /409/);
    await button(page, 'Resume…').click();
    await page.getByRole('dialog').getByText('It takes messages again').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click();
    await button(page, 'Drain…').waitFor();
    await check('queue');
    await context.close();
  },

  async deadLettersAreReadAndSentAgain({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 404') });
    const { call } = server;
    await call('POST', '/v1/queues', { name: 'orders', retry_config: { max_attempts: 1 } });
    await call('POST', '/v1/queues/orders/messages', { messages: [1, 2, 3].map((n) => ({ workspace: 'acme', payload: { order: n, note: XSS[0] } })) });
    await work(call, 'orders', 3, 'fail', { error: 'no such customer <img src=x onerror="window.__xss=1">' });
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/queues/orders/dead-letters`);
    const letters = page.getByRole('region', { name: 'Dead letters' });
    await untilEqual('dead letters', 3, () => letters.locator('[data-row]').count());
    await letters.locator('[data-row]').first().click();
    await letters.getByRole('row', { name: /1 FAILED .* no such customer/ }).waitFor();
    await letters.getByText('"order": 3').waitFor();
    await letters.getByRole('checkbox', { name: /^Choose/ }).first().check();
    await button(page, 'Redrive 1…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('1 message', { exact: true }).waitFor();
    await dialog.getByRole('button', { name: 'Redrive 1' }).click();
    await untilEqual('dead letters', 2, () => letters.locator('[data-row]').count());
    assert.equal((await call('GET', '/v1/queues/orders')).ready, 1);
    await button(page, 'Purge all…').click();
    await dialog.getByText('2 messages', { exact: true }).waitFor();
    await dialog.getByRole('button', { name: 'Purge 2' }).click();
    await letters.getByText('No dead letters').waitFor();
    await page.goto(`${server.url}/ui/queues/absent`);
    await page.getByText('There is no queue of this name').waitFor();
    await check('dead letters');
    await context.close();
  },

  async consumersMayOnlyWhatTheirGrantSays({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    const { call } = server;
    await call('POST', '/v1/queues', { name: 'granted' });
    await call('POST', '/v1/queues/granted/messages', { payload: 'one' });
    await call('POST', '/v1/users', { name: 'wilma', password: 'correct horse battery' });
    await call('POST', '/v1/grants', { privilege: 'CONSUME ON QUEUE granted', to_user: 'wilma' });
    await page.goto(`${server.url}/ui/queues/granted`);
    await page.getByLabel('User').fill('wilma');
    await page.getByLabel('Password', { exact: true }).last().fill('correct horse battery');
    await button(page, 'Log in').click();
    await title(page, 'granted');
    await settled(page);
    for (const name of ['Pause…', 'Resume…']) assert.equal(await button(page, name).count(), 0, name);
    await page.getByRole('link', { name: 'Messages', exact: true }).click();
    await page.locator('[data-row]').getByText('one').waitFor();
    assert.equal(await button(page, 'Cancel…').count(), 0);
    await page.getByRole('link', { name: 'Queues', exact: true }).first().click();
    await untilEqual('queues', ['granted'], () => page.locator('[data-row]').allInnerTexts());
    await check('granted');
    await context.close();
  },
};
