// Large data: an output of 100 MB, and an audit log of a million rows. Each has a server of its own.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { login, openPage, settled, startServer, until, untilEqual } from './world.mjs';

const HEAP_MAX = 150 * 1024 * 1024;
const ROWS = 1_000_000;

/** Collects tasks of the main thread that took longer than 50 ms. */
function watchTasks() {
  window.tasks = [0];
  new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((it) => it.duration))).observe({ type: 'longtask', buffered: true });
}

/** The slowest request so far, by the server's own measure. `cargo xtask bench ui` has limits for it: a build for tests is slow. */
function watchRequests(page) {
  const seen = { ms: 0, path: '' };
  page.on('response', (response) => {
    const { pathname, search } = new URL(response.url());
    const ms = Number(/total;dur=([\d.]+)/.exec(response.headers()['server-timing'] ?? '')?.[1] ?? 0);
    if (pathname !== '/v1/events' && ms > seen.ms) Object.assign(seen, { ms, path: pathname + search });
  });
  return seen;
}

async function figures(page, slowest) {
  const { task, heap } = await page.evaluate(() => ({ task: Math.max(...window.tasks), heap: performance.memory.usedJSHeapSize }));
  console.log(`      longest task ${Math.round(task)} ms, heap ${Math.round(heap / 1e6)} MB, slowest request ${Math.round(slowest.ms)} ms: ${slowest.path}`);
  assert.ok(heap < HEAP_MAX, `the page uses ${heap} bytes`);
}

export const large = {
  async aHundredMegabytesOfOutputStayUsable({ browser, folder }) {
    const server = await startServer(join(folder, 'output'), { PUNCTUAL_JOBS__OUTPUT_HEAD_BYTES: '80000000', PUNCTUAL_JOBS__OUTPUT_TAIL_BYTES: '80000000' });
    try {
      const row = 'row %.0f of an output that is larger than every page can show at the same time';
      const text = `seq -f '${row}' 1 640000; echo 'the needle is here'; seq -f '${row}' 640001 1280000`;
      await server.call('POST', '/v1/jobs', { name: 'hundred', job_type: 'MANUAL', timeout_seconds: 600, payload: { command: '/bin/sh', arguments: ['-c', text] } });
      const { execution_id: id } = await server.call('POST', '/v1/jobs/hundred/trigger', {});
      await until('the end of the output', async () => (await server.call('GET', `/v1/executions/${id}`)).completed_at);
      const { page, check, context } = await openPage(browser);
      await page.addInitScript(watchTasks);
      const slowest = watchRequests(page);
      await login(page, server.url, server.key);
      await page.goto(`${server.url}/ui/runs/${id}`);
      const box = page.getByRole('region', { name: 'Lines of the output' });
      await box.getByText('row 1 of an output').waitFor();
      await page.getByText(/^1.280.001 lines, (9[5-9]|10\d) MB$/).waitFor();
      assert.ok((await box.locator('.line').count()) < 150);
      // The scroll bar stands for all lines; the end is as near as the start.
      await box.evaluate((it) => it.scrollTo(0, it.scrollHeight));
      await box.getByText('row 1280000 of').waitFor();
      await box.evaluate((it) => it.scrollTo(0, it.scrollHeight / 2));
      await box.getByText(/^row 6\d{5} of/).first().waitFor();
      // Keys and wheel move by lines.
      const first = () => box.locator('.line').nth(25).getAttribute('data-n').then(Number);
      const before = await first();
      await box.press('ArrowDown');
      await untilEqual('one line further', before + 1, first);
      await page.getByLabel('Find in the output').fill('the needle');
      await page.getByText(/^1 line, .* searched$/).waitFor();
      await box.locator('.hit-now').getByText('the needle is here').waitFor();
      await box.locator('.hit-now').click();
      await until('the line in the address', () => page.url().endsWith('#L640001'));
      await page.reload();
      await box.locator('.linked').getByText('the needle is here').waitFor();
      await figures(page, slowest);
      await check('output of 100 MB');
      await context.close();
    } finally {
      await server.stop();
    }
  },

  async aMillionAuditRowsStayUsable({ browser, folder }) {
    const data = join(folder, 'audit');
    let server = await startServer(data);
    await server.call('POST', '/v1/jobs', { name: 'first-of-all', job_type: 'MANUAL', payload: { type: 'NOOP' } });
    await server.stop();
    // Behind the server's back: by requests they would take hours. They are sealed, because a build for
    // tests needs minutes to seal them; nothing here checks their chain. One in a thousand has another actor.
    const fill = `
import glob, sqlite3, sys
store = next(f for f in glob.glob(sys.argv[1] + '/*') if open(f, 'rb').read(15) == b'SQLite format 3' and not f.endswith('-wal') and sqlite3.connect(f).execute("SELECT count(*) FROM sqlite_master WHERE name = 'audit'").fetchone()[0])
with sqlite3.connect(store) as c:
    tenant, at = c.execute("SELECT tenant_id, at FROM audit WHERE kind = 'JOB_CREATED' ORDER BY place DESC LIMIT 1").fetchone()
    head = (c.execute("SELECT head_number FROM audit_chains WHERE tenant_id = ?", [tenant]).fetchone() or [0])[0]
    c.execute("""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS})
        INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs, number, hash)
        SELECT ?1, ?2 + i, CASE WHEN i % 1000 = 0 THEN 'rare' ELSE 'robot' END, 'LOGIN', 'DONE', '{"n":' || i || '}', x'', ?3 + i, randomblob(32) FROM n""", [tenant, at, head])
    c.execute("INSERT INTO audit_chains VALUES (?1, 0, zeroblob(32), NULL, ?2, zeroblob(32)) ON CONFLICT (tenant_id) DO UPDATE SET head_number = excluded.head_number", [tenant, head + ${ROWS}])
`;
    execFileSync('python3', ['-c', fill, data], { stdio: ['ignore', 'ignore', 'inherit'] });
    server = await startServer(data);
    try {
      const { page, check, context } = await openPage(browser);
      await page.addInitScript(watchTasks);
      const slowest = watchRequests(page);
      await login(page, server.url, server.key);
      await page.goto(`${server.url}/ui/audit?event=LOGIN`);
      const rows = page.getByRole('region', { name: 'Events' }).locator('tbody tr');
      await untilEqual('the first page', 50, () => rows.count());
      await page.getByRole('button', { name: 'Load 50 more' }).click();
      await untilEqual('two pages', 100, () => rows.count());
      // What is rare is looked for in steps, and found without a click for each of them.
      await page.getByLabel('Actor').fill('rare');
      await until('rows of the rare actor', async () => (await rows.count()) >= 50 && (await rows.first().innerText()).includes('rare'));
      await page.goto(`${server.url}/ui/audit?event=JOB_CREATED`);
      await page.getByRole('link', { name: 'first-of-all' }).waitFor();
      await settled(page);
      await figures(page, slowest);
      await check('audit of a million rows');
      await context.close();
    } finally {
      await server.stop();
    }
  },
};
