// The dashboard in a real browser against the real program. `SERVER_BINARY` names it. With `--shots
// FOLDER` the pictures of the documentation are written instead.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { behaviour } from './behaviour.mjs';
import { bulk, largeRun } from './bulk.mjs';
import { flow } from './flow.mjs';
import { journeys } from './journeys.mjs';
import { large } from './large.mjs';
import { oncall } from './oncall.mjs';
import { ALERT_CHANNEL, operate } from './operate.mjs';
import { queues } from './queues.mjs';
import { seed } from './seed.mjs';
import { sessions } from './sessions.mjs';
import { takeShots } from './shots.mjs';
import { closePages, login, openPage, openPages, settled, startBrowser, startServer, startService } from './world.mjs';

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

/** How much a page may move by itself, by the measure of browsers (CLS). On a machine that is idle no page moves by more than 0.1; on a loaded one placeholders take the place of late answers. */
const SHIFT_MAX = 0.25;

/** Adds up how much the page moves, and what moves. */
function watchShifts() {
  window.shifts = { sum: 0, what: [] };
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      window.shifts.sum += entry.value;
      for (const { node } of entry.sources) window.shifts.what.push(node?.className || node?.nodeName || 'text');
    }
  }).observe({ type: 'layout-shift', buffered: true });
}

/** Every page in both themes and two widths: no serious finding, no error, nothing wider than the screen. */
async function everyPage(world) {
  const { server, browser, seeded } = world;
  await server.call('POST', '/v1/alert-channels', ALERT_CHANNEL).catch(() => undefined);
  await server.call('POST', '/v1/status-pages', { name: 'shop', title: 'Shop', tags: ['etl'], is_public: true }).catch(() => undefined);
  const at = (job, time) => `jobs/${encodeURIComponent(job)}/at/${encodeURIComponent(time)}`;
  const paths = [
    '', 'jobs', 'jobs?q=nothing-has-this-name', 'jobs/nightly-ledger', 'jobs/nightly-ledger/history', 'jobs/nightly-ledger/definition',
    'jobs/nightly-ledger/calendar', 'jobs/nightly-ledger/calendar?from=2027-03-01&day=2027-03-28', 'jobs/quarter-hourly/calendar?from=2027-10-04&day=2027-10-31', 'lab/fleet',
    'jobs/nightly-ledger/edit', 'jobs/absent', 'new-job', 'runs', 'runs?status=FAILED', `runs/${seeded.failed}`, `runs/${seeded.talker}`,
    at('nightly-ledger', '2030-01-01T01:30:00Z'), at('import-orders', '2020-01-01T00:00:00Z'), 'lab?cron=30+2+*+*+*&tz=Europe/Berlin&from=2026-03-01', 'dead-letters', 'workflows', 'workflows/etl-pipeline', 'workflows/etl-pipeline/runs', 'workflows/etl-pipeline/definition', 'workflows/absent',
    ...['', '?view=gantt', '?view=steps', '?view=grid', '?view=compare', '?view=why', '?step=load', '?step=publish', '?only=upstream&step=check'].map((it) => `workflow-runs/${seeded.dagRun}${it}`),
    'queues', 'queues/emails', 'queues/emails/messages', 'queues/emails/dead-letters', 'queues/emails/settings', 'jobs/nightly-ledger/schedule', 'jobs/nightly-ledger/graph', 'jobs/talker/graph', 'jobs/mail-digest/schedule', 'sql', 'audit', 'cluster', 'administration', 'administration/keys', 'administration/settings', 'administration/calendars', 'administration/pools', 'administration/hooks', 'administration/status-pages', 'administration/channels', 'administration/deliveries?channel=on-call', 'administration/artifacts', 'runs?status=FAILED,NONSENSE&since=never&job=import-orders', 'status/shop', `runs/${(world.large ??= await largeRun(server))}?q=needle`, 'nowhere',
  ];
  const hostile = seeded.xssJobs.flatMap((name) => [`jobs/${encodeURIComponent(name)}`, `jobs/${encodeURIComponent(name)}/edit`]);
  // An answer with an error status is a line of the console, whoever asked.
  const expected = (text) => text.includes('status of 404');
  const wrong = new Map();
  for (const theme of ['light', 'dark']) {
    for (const width of [390, 1440]) {
      const { page, context, check } = await openPage(browser, { theme, width, expected });
      await page.addInitScript(watchShifts);
      await login(page, server.url, server.key);
      // Each page in both themes and both widths; the other two pairs for the pages that differ most.
      const isMain = (path) => ['', 'jobs', 'jobs/nightly-ledger', `runs/${seeded.failed}`, 'queues/emails', `workflow-runs/${seeded.dagRun}`].includes(path);
      const isFull = (theme === 'light') === (width === 1440);
      const shown = isFull ? (theme === 'dark' ? [...paths, ...hostile] : paths) : paths.filter(isMain);
      for (const path of shown) {
        await page.goto(`${server.url}/ui/${path}`);
        await page.locator('main h1').first().waitFor();
        await settled(page);
        const where = `${path} (${theme}, ${width})`;
        const shift = await page.evaluate(() => window.shifts);
        if (shift.sum >= SHIFT_MAX) wrong.set(`${path} jumped: ${shift.what.join(', ')}`, [`${where} by ${shift.sum.toFixed(3)}`]);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${where} is ${wide} pixels wider than the screen`);
        // Pages with hostile texts have the elements of other pages: what counts is that they run nothing.
        if (hostile.includes(path)) {
          await check(where);
          continue;
        }
        await page.evaluate(axe);
        const found = await page.evaluate(() =>
          window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }),
        );
        const bad = found.violations.filter((it) => ['serious', 'critical'].includes(it.impact));
        for (const it of bad) {
          for (const node of it.nodes) {
            const text = `${it.id}: ${node.html}\n    ${node.failureSummary}`;
            wrong.set(text, [...(wrong.get(text) ?? []), where]);
          }
        }
        await check(where);
      }
      await context.close();
    }
  }
  assert.deepEqual([...wrong].map(([text, places]) => `${text}\n  on ${places.slice(0, 3).join(', ')}`), []);
}

const folder = mkdtempSync(join(tmpdir(), 'punctual-ui-'));
const service = await startService();
const server = await startServer(join(folder, 'data'), { PUNCTUAL_UI__ENVIRONMENT: 'staging' });
const browser = await startBrowser();
let code = 0;
try {
  const seeded = await seed(server, service.url, folder);
  const world = { server, browser, seeded, service, folder };
  const shots = process.argv.indexOf('--shots');
  const wanted = process.argv.indexOf('--only');
  const tests = shots > 0 ? { shots: () => takeShots(world, process.argv[shots + 1]) } : { ...sessions, ...journeys, ...behaviour, ...queues, ...flow, ...operate, ...bulk, ...oncall, ...large, everyPage };
  for (const [name, test] of Object.entries(tests)) {
    if (wanted > 0 && !process.argv[wanted + 1].split(',').includes(name)) continue;
    const began = Date.now();
    try {
      await test(world);
      console.log(`ok    ${name} (${Date.now() - began} ms)`);
    } catch (error) {
      code = 1;
      console.log(`FAILED ${name} (${Date.now() - began} ms)\n${error.stack}\n${await openPages()}`);
    } finally {
      await closePages();
    }
  }
} finally {
  await browser.close();
  await server.stop();
  service.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(code);
