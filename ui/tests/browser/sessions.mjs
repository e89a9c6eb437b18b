// Sessions, tenants, proxies and restarts: how a browser reaches the dashboard and stays in.

import assert from 'node:assert/strict';
import { createServer, request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { freePort, login, openPage, pressUntil, settled, startProvider, startServer, until, untilEqual } from './world.mjs';

const button = (page, name) => page.getByRole('button', { name, exact: true });
const heading = (page, name) => page.getByRole('heading', { level: 1, name, exact: true });
const title = (page, name) => heading(page, name).waitFor();

export const sessions = {
  async loginByLinkPasswordAndKey({ server, browser }) {
    const expected = (text) => text.includes('status of 401');
    const { page, check, context } = await openPage(browser, { expected });
    await page.goto(server.link);
    await page.getByRole('navigation', { name: 'Pages' }).waitFor();
    await until('an address without the token', () => !page.url().includes('token'));
    await page.getByLabel('Account of admin').click();
    await button(page, 'Log out').click();
    await title(page, 'Log in to Punctual');
    // The link works once; what was wrong is said, and the form keeps its text.
    await page.goto('about:blank');
    await page.goto(server.link);
    await page.getByRole('alert').getByText('login link').waitFor();
    await page.getByLabel('User').fill('vera');
    await page.getByLabel('Password', { exact: true }).last().fill('wrong horse battery');
    await button(page, 'Log in').click();
    await page.getByRole('alert').getByText('wrong').waitFor();
    assert.equal(await page.getByLabel('User').inputValue(), 'vera');
    await page.getByLabel('Password', { exact: true }).last().fill('correct horse battery');
    await button(page, 'Log in').click();
    await page.getByLabel('Account of vera').waitFor();
    const cookies = await context.cookies();
    assert.deepEqual(cookies.map((it) => [it.httpOnly, it.sameSite, it.expires]), [[true, 'Strict', -1]]);
    assert.equal(await page.evaluate(() => document.cookie), '');
    await check('login');
    await context.close();
  },

  async aStreamThatAProxyCutsGoesOnWithoutAMark({ server, browser }) {
    // A proxy that ends every stream of events after some seconds, as others do after a minute.
    const cuts = [];
    const proxy = createServer((request, response) => {
      const to = new URL(server.url);
      const asked = httpRequest({ host: to.hostname, port: to.port, path: request.url, method: request.method, headers: request.headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        response.flushHeaders();
        answer.pipe(response);
        if (request.url.startsWith('/v1/events')) {
          setTimeout(() => {
            cuts.push(Date.now());
            answer.unpipe(response);
            response.end();
            asked.destroy();
          }, 4000);
        }
      });
      asked.on('error', () => response.destroy());
      request.pipe(asked);
    });
    await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
    const url = `http://127.0.0.1:${proxy.address().port}`;
    const { page, check, context } = await openPage(browser);
    try {
      await login(page, url, server.key);
      await page.goto(`${url}/ui/jobs`);
      await title(page, 'Jobs');
      await page.getByLabel('Updates: live').waitFor();
      // Every state that the page shows from now on.
      await page.evaluate(() => {
        window.states = [];
        const look = () => window.states.push(document.querySelector('[aria-label^="Updates:"]')?.getAttribute('aria-label'));
        new MutationObserver(look).observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
      });
      await until('two cuts', () => cuts.length >= 2);
      await server.call('POST', '/v1/jobs', { name: 'after-the-cut', job_type: 'MANUAL', payload: { type: 'NOOP' } });
      await page.getByRole('link', { name: 'after-the-cut' }).waitFor();
      const marks = await page.evaluate(() => window.states.filter((it) => it !== 'Updates: live'));
      assert.deepEqual(marks, []);
      assert.equal(await page.getByText('Live updates lost').count(), 0);
      await check('cut');
      await context.close();
    } finally {
      proxy.closeAllConnections();
      proxy.close();
    }
  },

  async administratorsSeeOtherTenants({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 404') });
    await server.call('POST', '/v1/tenants', { name: 'acme' });
    await login(page, server.url, server.key);
    await page.getByLabel('Account of admin').click();
    await page.getByRole('navigation', { name: 'Tenants' }).getByRole('link', { name: 'acme' }).click();
    await page.getByText('tenant acme', { exact: true }).waitFor();
    await title(page, 'No job yet');
    await page.getByRole('link', { name: 'Jobs', exact: true }).click();
    await page.getByRole('link', { name: 'New job' }).click();
    await page.getByLabel('Name', { exact: true }).fill('of-acme');
    await page.getByLabel('Cron expression').fill('0 3 * * *');
    await page.getByLabel('Action').selectOption('NOOP');
    await button(page, 'Create job').click();
    await title(page, 'of-acme');
    assert.ok(page.url().endsWith('/ui/t/acme/jobs/of-acme'), page.url());
    await page.reload();
    await title(page, 'of-acme');
    await page.getByLabel('Updates: live').waitFor();
    assert.equal((await server.call('GET', '/v1/jobs?q=of-acme')).data.length, 0, 'the job is one of the own tenant');
    await page.goto(`${server.url}/ui/t/nowhere/`);
    await page.getByText('there is no tenant').waitFor();
    await page.getByRole('link', { name: 'Your own tenant' }).click();
    await page.getByRole('navigation', { name: 'Pages' }).waitFor();
    await check('tenants');
    await context.close();
  },

  async viewersAreOfferedNothingThatTheyMayNot({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await page.goto(`${server.url}/ui/jobs/nightly-ledger`);
    await page.getByLabel('User').fill('vera');
    await page.getByLabel('Password', { exact: true }).last().fill('correct horse battery');
    await button(page, 'Log in').click();
    await title(page, 'nightly-ledger');
    await page.getByRole('link', { name: 'Open run and log' }).waitFor();
    for (const path of ['jobs/nightly-ledger', 'jobs', `runs/${seeded.failed}`, `runs/${seeded.slow[0]}`, '']) {
      await page.goto(`${server.url}/ui/${path}`);
      await page.locator('main h1').waitFor();
      await settled(page);
      for (const name of ['Run now…', 'Backfill…', 'Pause…', 'Resume…', 'Edit', 'Delete…', 'New job', 'Cancel…', 'Retry…']) {
        assert.equal(await page.getByRole('button', { name, exact: true }).count(), 0, `${path} offers ${name}`);
        assert.equal(await page.getByRole('link', { name, exact: true }).count(), 0, `${path} offers ${name}`);
      }
    }
    await page.goto(`${server.url}/ui/jobs/nightly-ledger`);
    await title(page, 'nightly-ledger');
    await page.keyboard.press('r');
    // A key that the page knows shows that it has read the one before.
    await pressUntil(page, ['?'], page.getByRole('dialog', { name: 'Keys' }));
    assert.equal(await page.getByRole('dialog').count(), 1, 'the key r opened a dialog');
    await check('viewer');
    await context.close();
  },

  async sessionEndsOverThePage({ server, browser }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 401') });
    await page.goto(`${server.url}/ui/new-job`);
    await page.getByLabel('User').fill('vera');
    await page.getByLabel('Password', { exact: true }).last().fill('correct horse battery');
    await button(page, 'Log in').click();
    await title(page, 'New job');
    await page.getByLabel('Description').fill('typed before');
    const keys = (await server.call('GET', '/v1/keys?user=vera')).data;
    for (const key of keys) await server.call('DELETE', `/v1/keys/${key.key_id}`);
    await page.getByLabel('Cron expression').fill('0 5 * * *');
    const again = page.getByRole('dialog', { name: 'Your session has ended' });
    await again.waitFor();
    await again.getByLabel('User').fill('vera');
    await again.getByLabel('Password', { exact: true }).last().fill('correct horse battery');
    await again.getByRole('button', { name: 'Log in', exact: true }).click();
    await again.waitFor({ state: 'detached' });
    await untilEqual('the typed text', 'typed before', () => page.getByLabel('Description').inputValue());
    await check('session');
    await context.close();
  },

  async loginAtAnOpenIdProvider({ browser, folder }) {
    const provider = await startProvider();
    const port = await freePort();
    const server = await startServer(join(folder, 'oidc'), {
      PUNCTUAL_AUTH__OIDC__ISSUERS: provider.url,
      PUNCTUAL_AUTH__OIDC__AUDIENCE: 'dash',
      PUNCTUAL_AUTH__OIDC__TENANT: 'default',
      PUNCTUAL_AUTH__OIDC__CLIENT_ID: 'dash',
      PUNCTUAL_AUTH__OIDC__REDIRECT_URL: `http://127.0.0.1:${port}/v1/session/oidc/callback`,
    }, port);
    try {
      await server.call('POST', '/v1/jobs', { name: 'seen', job_type: 'MANUAL', payload: { type: 'NOOP' } });
      const { page, check, context } = await openPage(browser);
      await page.goto(`${server.url}/ui/jobs/seen`);
      // Without a role there is no way in, and the page says so.
      await page.getByRole('link', { name: /^Log in with 127/ }).click();
      await page.getByText('you have no role here').waitFor();
      await server.call('POST', '/v1/roles', { name: 'readers' });
      await server.call('POST', '/v1/grants', { privilege: 'VIEW JOB HISTORY', to_role: 'readers' });
      await page.goto(`${server.url}/ui/jobs/seen`);
      await page.getByRole('link', { name: /^Log in with 127/ }).click();
      // Back on the page that was asked for, with what the role gives and no more.
      await title(page, 'seen');
      assert.ok(page.url().endsWith('/ui/jobs/seen'), page.url());
      assert.equal(await button(page, 'Run now…').count(), 0);
      await page.getByLabel(/^Account of .*#ann/).click();
      await button(page, 'Log out').click();
      await title(page, 'Log in to Punctual');
      await check('OpenID');
      await context.close();
    } finally {
      provider.stop();
      await server.stop();
    }
  },

  async worksUnderAPathOfAProxyAndAfterARestart({ browser, folder }) {
    const data = join(folder, 'proxied');
    let server = await startServer(data, { PUNCTUAL_UI__BASE_PATH: '/x/ui/' });
    const proxy = createServer((request, response) => {
      const to = new URL(server.url);
      const path = request.url.replace(/^\/x/, '');
      if (path === request.url) return response.writeHead(404).end();
      const asked = httpRequest({ host: to.hostname, port: to.port, path, method: request.method, headers: request.headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
        answer.on('error', () => response.destroy());
      });
      asked.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()));
      request.pipe(asked);
    });
    await new Promise((done) => proxy.listen(0, '127.0.0.1', done));
    const url = `http://127.0.0.1:${proxy.address().port}/x`;
    try {
      const lost = (text) => /status of 502|net::ERR_/.test(text);
      const { page, check, context } = await openPage(browser, { expected: lost });
      await login(page, url, server.key);
      await title(page, 'No job yet');
      await page.goto(`${url}/ui/jobs`);
      await title(page, 'Jobs');
      await page.getByLabel('Updates: live').waitFor();
      await server.stop();
      await page.getByText('Live updates lost').waitFor();
      server = await startServer(data, { PUNCTUAL_UI__BASE_PATH: '/x/ui/' });
      await server.call('POST', '/v1/jobs', { name: 'after-the-restart', job_type: 'MANUAL', payload: { type: 'NOOP' } });
      await page.getByRole('link', { name: 'after-the-restart' }).waitFor();
      await page.getByRole('link', { name: 'after-the-restart' }).click();
      await title(page, 'after-the-restart');
      assert.ok(page.url().startsWith(`${url}/ui/jobs/`), page.url());
      await check('proxy');
      await context.close();
    } finally {
      proxy.closeAllConnections();
      proxy.close();
      await server.stop();
    }
  },
};
