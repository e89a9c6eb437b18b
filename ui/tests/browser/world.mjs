// A real server with a seeded store, a small service that its jobs call, and a browser in which any
// error of a page fails the test.

import { spawn } from 'node:child_process';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

/** Texts that would run or break a page that takes them for markup. */
export const XSS = [
  '<script>window.__xss=1</script>',
  '<img src=x onerror="window.__xss=1">',
  '"><svg onload=window.__xss=1>',
  "'-window.__xss=1-'",
  '{{constructor.constructor("window.__xss=1")()}}',
  'javascript:window.__xss=1',
  '\u202Egnp.exe',
];

export async function startServer(folder, environment = {}, port = 0) {
  const child = spawn(process.env.SERVER_BINARY, ['serve', '--data', folder, '--http', `127.0.0.1:${port}`, '--pg', 'none'], {
    env: {
      ...process.env,
      PUNCTUAL_EXTERNAL__ENABLED: 'true',
      PUNCTUAL_ARTIFACTS__ENABLED: 'true',
      PUNCTUAL_EXTERNAL__ALLOW: '/bin/sh',
      PUNCTUAL_EXTERNAL__SANDBOX: 'best-effort',
      PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE: '127.0.0.1',
      PUNCTUAL_API__FAILURES_PER_SECOND: '0',
      ...environment,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8');
  const ready = new Promise((done, failed) => {
    child.stderr.on('data', (text) => {
      said += text;
      const url = /"url":"(http:[^"]+)"/.exec(said)?.[1];
      if (url && said.includes('"message":"ready"')) done(url);
    });
    child.on('exit', () => failed(new Error(`the server ended: ${said}`)));
  });
  const url = await ready;
  const key = readFileSync(join(folder, 'admin.key'), 'utf8').trim();
  const link = /(http:\S+\/ui\/login#token=[0-9a-f]+)/.exec(said)?.[1];
  const call = async (method, path, body, as = key) => {
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${as}`, 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  };
  const stop = () =>
    new Promise((done) => {
      child.on('exit', done);
      child.kill('SIGKILL');
    });
  return { url, key, link, call, stop, child };
}

/** Pushes a program as a version of an artifact, as a user does. */
export async function pushArtifact({ url, key }, folder, name, text, label) {
  const path = join(folder, `${name}.sh`);
  writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  const child = spawn(process.env.SERVER_BINARY, ['artifact', 'push', path, '--name', name, '--label', label], {
    env: { ...process.env, PUNCTUAL_SERVER: url, PUNCTUAL_TOKEN: key }, stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (part) => (said += part));
  const code = await new Promise((done) => child.on('exit', done));
  if (code) throw new Error(`artifact push ended with ${code}: ${said}`);
}

/** An agent elsewhere, which is killed without a farewell. */
export async function startAgent(server, folder, name) {
  const token = await server.call('POST', '/v1/agent-tokens', { labels: {} });
  const child = spawn(process.env.SERVER_BINARY, ['agent', '--server', server.url, '--join', token.token, '--name', name, '--data', folder], { stdio: 'ignore' });
  const ended = new Promise((done) => child.on('exit', done));
  await until(`the agent ${name}`, async () => (await server.call('GET', '/v1/nodes')).data.some((it) => it.name === name && it.status === 'ACTIVE'));
  return { stop: () => (child.kill('SIGKILL'), ended) };
}

/** A port that was free a moment ago. */
export async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/** An OpenID provider that logs every visitor in as `ann`. */
export async function startProvider() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const encoded = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const asked = { query: undefined, form: undefined };
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, url);
    const json = (value) => response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
    if (pathname === '/.well-known/openid-configuration') {
      return json({ issuer: url, jwks_uri: `${url}/keys`, authorization_endpoint: `${url}/auth`, token_endpoint: `${url}/token` });
    }
    if (pathname === '/keys') return json({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k', use: 'sig', alg: 'ES256' }] });
    if (pathname === '/auth') {
      asked.query = searchParams;
      const back = new URL(searchParams.get('redirect_uri'));
      back.search = new URLSearchParams({ code: 'the code', state: searchParams.get('state') });
      return response.writeHead(303, { location: back.href }).end();
    }
    let form = '';
    request.on('data', (part) => (form += part)).on('end', () => {
      const given = new URLSearchParams(form);
      const challenge = createHash('sha256').update(given.get('code_verifier') ?? '').digest('base64url');
      if (given.get('code') !== 'the code' || challenge !== asked.query.get('code_challenge')) return response.writeHead(400).end();
      const now = Math.floor(Date.now() / 1000);
      const claims = { iss: url, aud: asked.query.get('client_id'), sub: 'ann', nonce: asked.query.get('nonce'), iat: now, exp: now + 3600, roles: ['readers'] };
      const text = `${encoded({ alg: 'ES256', kid: 'k' })}.${encoded(claims)}`;
      const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url');
      json({ id_token: `${text}.${signature}`, access_token: 'none', token_type: 'Bearer' });
    });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${server.address().port}`;
  return { url, stop: () => (server.closeAllConnections(), server.close()) };
}

/** A service for jobs: `/ok`, `/broken` with a text, `/late` after three seconds, `/slow`, which answers when it is stopped. */
export async function startService() {
  const waiting = new Set();
  const server = createServer((request, response) => {
    if (request.url === '/ok') response.end('fine\n');
    else if (request.url === '/late') setTimeout(() => response.end('fine at last\n'), 3000);
    else if (request.url.startsWith('/broken')) {
      response.statusCode = 500;
      response.end(decodeURIComponent(request.url.slice('/broken?'.length)) || 'broken');
    } else waiting.add(response);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const url = `http://127.0.0.1:${server.address().port}`;
  const stop = () => {
    for (const response of waiting) response.destroy();
    server.closeAllConnections();
    server.close();
  };
  return { url, stop };
}

/** How long a step may take. A loaded machine needs most of it; an idle one a fraction of a second. */
export const STEP_MS = 60_000;

/** Asks again until the answer is there. Names what was expected and what the last answer was. */
export async function until(what, ask) {
  const end = Date.now() + STEP_MS;
  for (let found; ; ) {
    found = await ask();
    if (found) return found;
    if (Date.now() > end) throw new Error(`expected within ${STEP_MS / 1000} s: ${what}; last seen: ${JSON.stringify(found)}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** Waits until a value is the expected one; the failure has both. */
export async function untilEqual(what, expected, ask) {
  const end = Date.now() + STEP_MS;
  const wanted = JSON.stringify(expected);
  for (;;) {
    const seen = JSON.stringify(await ask());
    if (seen === wanted) return;
    if (Date.now() > end) throw new Error(`${what}: expected ${wanted}, seen ${seen}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** Presses keys one after the other, again if the page took the first before it was ready for the others. */
export async function pressUntil(page, keys, locator) {
  const end = Date.now() + STEP_MS;
  for (;;) {
    for (const key of keys) await page.keyboard.press(key);
    const wait = Math.max(1, Math.min(3000, end - Date.now()));
    if (await locator.waitFor({ timeout: wait }).then(() => true, () => false)) return;
    if (Date.now() >= end) throw new Error(`the keys ${keys.join(' ')} did not lead to ${locator}`);
  }
}

export async function startBrowser() {
  return chromium.launch({
    timeout: 2 * STEP_MS,
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync',
    ],
  });
}

/** Files of another build than the one in the program, with the program's headers. */
async function serveFrom(dist, route) {
  const name = new URL(route.request().url()).pathname.split('/ui/')[1];
  if (name.startsWith('status/')) return route.continue();
  const isFile = name && /\.(js|css|svg)$/.test(name);
  const kind = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' }[name.split('.').pop()];
  if (isFile) return route.fulfill({ path: join(dist, name), contentType: kind });
  const response = await route.fetch();
  const base = /<base href="[^"]*"/.exec(await response.text())[0];
  const body = readFileSync(join(dist, 'index.html'), 'utf8').replace(/<base href="[^"]*"/, base);
  return route.fulfill({ response, body });
}

const opened = new Set();

/** Every open page: address, errors and what it shows, for the report of a failure. */
export async function openPages() {
  const reports = [];
  for (const { page, errors } of opened) {
    const text = await Promise.race([
      page.evaluate(() => document.body.innerText).catch((error) => error.message),
      new Promise((done) => setTimeout(() => done('the page does not answer'), 10_000)),
    ]);
    const noted = errors.length ? `\nerrors: ${errors.join('\n        ')}` : '';
    reports.push(`page ${page.url()}${noted}\n${text.slice(0, 1500).replace(/^/gm, '  | ')}`);
  }
  return reports.join('\n') || 'no page was open';
}

/** Closes the pages that a failed journey has left open. */
export async function closePages() {
  for (const { page } of opened) await page.context().close().catch(() => undefined);
  opened.clear();
}

/** A page whose errors are collected; `expected` says which messages of the console are none. */
export async function openPage(browser, { theme = 'light', width = 1440, height = 900, expected = () => false } = {}) {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: theme, timezoneId: 'Europe/Berlin', locale: 'en-GB', reducedMotion: 'reduce',
  });
  if (process.env.UI_DIST) await context.route(/\/ui\//, (route) => serveFrom(process.env.UI_DIST, route).catch(() => undefined));
  const page = await context.newPage();
  page.setDefaultTimeout(STEP_MS);
  const errors = [];
  const entry = { page, errors };
  opened.add(entry);
  context.on('close', () => opened.delete(entry));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !expected(message.text())) errors.push(`console: ${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => errors.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    errors.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    const { protocol, hostname } = new URL(request.url());
    if (protocol.startsWith('http') && hostname !== '127.0.0.1') errors.push(`request to ${request.url()}`);
  });
  const check = async (where) => {
    if (await page.evaluate(() => window.__xss)) errors.push('a text of a job was run as a script');
    if (errors.length) throw new Error(`${where}: expected no error, seen:\n${errors.join('\n')}`);
  };
  return { page, context, check };
}

export async function login(page, url, key) {
  await page.goto(`${url}/ui/`);
  await page.getByRole('button', { name: 'API key' }).click();
  await page.getByLabel('API key', { exact: true }).last().fill(key);
  await page.getByRole('button', { name: 'Log in', exact: true }).click();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
}

/** Waits until the page has its answers: nothing was open at several looks one after the other. */
export async function settled(page) {
  await page.locator('main h1').first().waitFor();
  let idle = 0;
  await until(`all answers of ${page.url()}`, async () => {
    const isIdle = await page.evaluate(() => !document.documentElement.dataset.busy && !document.querySelector('.skeleton'));
    idle = isIdle ? idle + 1 : 0;
    return idle > 2;
  });
}
