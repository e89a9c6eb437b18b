// What pages cost in a large store: the server's time for each request of each page, the longest
// task of the browser's main thread, and what fifty open tabs ask of the store beside one. One JSON
// line for each figure; exits with 1 if a figure is above its limit.
//
// `SERVER_URL` and `SERVER_KEY` name a running server. `cargo xtask bench ui` fills a store, starts a
// server on it and runs this.

import { login, openPage, settled, startBrowser, until } from './world.mjs';

const SERVER_MS_MAX = 300;
const TASK_MS_MAX = 100;
const TABS = 50;
const WATCHED_SECONDS = 20;

const url = process.env.SERVER_URL;
const key = process.env.SERVER_KEY;
const rounds = Number(process.env.ROUNDS ?? 3);
let isWrong = false;

function print(figure, value, unit, settings, max) {
  const isTooMuch = value > max;
  isWrong ||= isTooMuch;
  console.log(JSON.stringify({ figure, value, unit, max, ...(isTooMuch ? { failed: true } : {}), ...settings }));
}

const call = async (path) => (await fetch(url + path, { headers: { authorization: `Bearer ${key}` } })).json();

/** Collects tasks of the main thread that took longer than 50 ms. */
function watchTasks() {
  window.tasks = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.tasks.push(entry.duration);
  }).observe({ type: 'longtask', buffered: true });
}

/** How many operations the store has answered. */
async function operations() {
  const text = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } })).text();
  const counts = [...text.matchAll(/^punctual_store_operation_duration_seconds_count\{([^}]*)\} (\S+)/gm)];
  if (!counts.length) throw new Error('no metric of store operations');
  return new Map(counts.map(([, labels, count]) => [/operation="([^"]+)"/.exec(labels)?.[1] ?? labels, Number(count)]));
}

async function pages() {
  const jobs = (await call('/v1/jobs?limit=50&cursor=')).data ?? (await call('/v1/jobs?limit=50')).data;
  const job = encodeURIComponent(jobs[jobs.length - 1].name);
  const { data: runs } = await call(`/v1/jobs/${job}/executions?status=COMPLETED&limit=1`);
  const { data: failed } = await call('/v1/executions?status=FAILED&limit=1');
  return [
    ['overview', ''],
    ['jobs', 'jobs'],
    ['jobs, search', 'jobs?q=99'],
    ['jobs, search without a hit', 'jobs?q=no-such-name'],
    ['jobs, tag', 'jobs?tag=team-3'],
    ['jobs, last run failed', 'jobs?last=FAILED'],
    ['jobs, by next time', 'jobs?sort=next'],
    ['jobs, by last run', 'jobs?sort=last'],
    ['job', `jobs/${job}`],
    ['job, history', `jobs/${job}/history`],
    ['job, history of failures', `jobs/${job}/history?status=FAILED`],
    ['job, calendar', `jobs/${job}/calendar`],
    ['job, schedule', `jobs/${job}/schedule`],
    ['job, definition', `jobs/${job}/definition`],
    ['why', `jobs/${job}/at/${encodeURIComponent(failed[0].scheduled_time)}`],
    ['runs', 'runs'],
    ['runs, completed in 24 h', 'runs?status=COMPLETED&since=-24h'],
    ['runs, failed in 24 h', 'runs?status=FAILED,TIMEOUT&since=-24h'],
    ['runs, not run in 24 h', 'runs?status=SKIPPED,MISSED&since=-24h'],
    ['runs, running', 'runs?status=RUNNING'],
    ['run', `runs/${runs[0].execution_id}`],
    ['run, failed', `runs/${failed[0].execution_id}`],
    ['queues', 'queues'],
    ['audit', 'audit'],
    ['audit, changes of jobs', 'audit?event=JOB_CREATED,JOB_MODIFIED,JOB_DELETED'],
    ['audit, one job', `audit?job=${job}`],
    ['fleet', 'lab/fleet'],
    ['lab', 'lab?cron=30+2+*+*+*&tz=Europe/Berlin'],
  ];
}

const browser = await startBrowser();
try {
  const { page, context } = await openPage(browser);
  await page.addInitScript(watchTasks);
  await login(page, url, key);
  const list = await pages();
  // What the server counts beside requests, once: the first answer says that it is not there yet.
  const began = Date.now();
  await until('counts of all jobs', async () => (await call('/v1/jobs?facets=true&limit=1')).facets);
  await until('the plan of the week', async () => (await call('/v1/schedule/heat')).computed_at);
  print('ui.first_counts', Date.now() - began, 'ms', {}, 60_000);
  for (const [name, path] of list) {
    const slowest = new Map();
    let task = 0;
    const seen = (response) => {
      const address = response.url().replace(url, '');
      const ms = Number(/total;dur=([\d.]+)/.exec(response.headers()['server-timing'] ?? '')?.[1] ?? 0);
      if (address.startsWith('/v1/') && !address.startsWith('/v1/events')) slowest.set(address, Math.max(ms, slowest.get(address) ?? 0));
    };
    page.on('response', seen);
    for (let i = 0; i < rounds; i++) {
      await page.goto(`${url}/ui/${path}`);
      await settled(page);
      task = Math.max(task, ...(await page.evaluate(() => window.tasks)));
    }
    page.off('response', seen);
    const [address, ms] = [...slowest].sort((a, b) => b[1] - a[1])[0] ?? ['', 0];
    print('ui.server_time', ms, 'ms', { page: name, request: address }, SERVER_MS_MAX);
    print('ui.longest_task', Math.round(task), 'ms', { page: name }, TASK_MS_MAX);
  }
  await context.close();

  // Tabs of one user in as many windows, all of them visible, on the page that asks most.
  const cost = async (tabs) => {
    const contexts = [];
    for (let i = 0; i < tabs; i++) {
      const { page, context } = await openPage(browser, { width: 400, height: 300 });
      contexts.push(context);
      await login(page, url, key);
      await settled(page);
    }
    const before = await operations();
    await new Promise((done) => setTimeout(done, WATCHED_SECONDS * 1000));
    const after = await operations();
    for (const context of contexts) await context.close();
    // The scheduler works beside the pages; what pages ask are reads.
    return [...after].map(([name, count]) => [name, count - (before.get(name) ?? 0)]).filter(([, count]) => count > 0);
  };
  const sum = (counts) => counts.reduce((all, [, count]) => all + count, 0);
  const idle = sum(await cost(0));
  const one = sum(await cost(1)) - idle;
  const many = sum(await cost(TABS)) - idle;
  print('ui.tabs', Number((many / Math.max(one, 1)).toFixed(2)), `times the operations of 1 tab for ${TABS}`, { one, many, idle, seconds: WATCHED_SECONDS }, 2);
} finally {
  await browser.close();
}
process.exit(isWrong ? 1 : 0);
