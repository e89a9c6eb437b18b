// Workflows in the dashboard: grid, graph, Gantt chart, steps, approvals, re-runs; also with 10,000 steps.

import assert from 'node:assert/strict';
import { login, openPage, pressUntil, settled, until, untilEqual, XSS } from './world.mjs';

const button = (page, name) => page.getByRole('button', { name, exact: true });
const noop = { type: 'NOOP' };
const step = (name, dependencies = [], more = {}) => ({ name, dependencies, payload: noop, max_retries: 0, ...more });
const columns = (call, id) => call('GET', `/v1/dag-runs/${id}/columns`);
const trigger = async (call, dag) => (await call('POST', `/v1/dags/${encodeURIComponent(dag)}/trigger`, {})).dag_run_id;
const over = (call, id) => until(`the end of ${id}`, async () => {
  const run = await call('GET', `/v1/dag-runs/${id}?limit=1`);
  return run.completed_at ? run : undefined;
});

/** Collects tasks of the main thread that took longer than 50 ms. */
function watchTasks() {
  window.tasks = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.tasks.push(entry.duration);
  }).observe({ type: 'longtask', buffered: true });
}

export const flow = {
  async aWorkflowIsRunApprovedAndRunAgain({ server, browser, service }) {
    const { page, check, context } = await openPage(browser);
    const { call } = server;
    const name = `release ${XSS[1]}`;
    await call('POST', '/v1/dags', {
      name, description: XSS[0], config: { note: XSS[2], list: [XSS[0], XSS[1], 'c'] },
      tasks: [
        step('build'), step('test', ['build'], { for_each: { item: 'x', list: 'config.list' } }), step('ask', ['test'], { payload: { type: 'APPROVAL' } }),
        step('ship', ['ask'], { payload: { endpoint: `${service.url}/broken?${encodeURIComponent(XSS[1])}`, method: 'GET' } }), step('tell', ['ship']),
      ],
    });
    await login(page, server.url, server.key);
    // By the keyboard from the menu to a new run.
    await pressUntil(page, ['g', 'w'], page.getByRole('heading', { level: 1, name: 'Workflows' }));
    await page.getByRole('link', { name, exact: true }).click();
    await page.getByText('It has not run yet').waitFor();
    const runNow = page.getByRole('dialog').getByRole('button', { name: 'Run now' });
    await pressUntil(page, ['r'], runNow);
    await runNow.click();
    await until('the page of the run', () => page.url().includes('/workflow-runs/'));
    const id = page.url().split('/workflow-runs/')[1].split('?')[0];
    // The graph is there from the start; states come while it runs.
    await page.getByRole('link', { name: /^tell, PENDING, after ship/ }).waitFor();
    await page.getByRole('link', { name: /^test, COMPLETED, after build/ }).waitFor();
    await page.getByText('ask waits for an approval').waitFor();
    await page.getByRole('link', { name: 'Look and answer' }).click();
    const panel = page.getByRole('region', { name: 'Step ask' });
    await panel.getByRole('heading', { name: 'Why' }).waitFor();
    await panel.getByRole('button', { name: 'Approve…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Reason').fill(XSS[0]);
    await dialog.getByRole('button', { name: 'Approve' }).click();
    await page.getByRole('link', { name: /^ship, FAILED/ }).waitFor();
    await page.getByRole('link', { name: /^tell, SKIPPED/ }).waitFor();
    assert.match((await call('GET', `/v1/dag-runs/${id}/tasks/ask`)).reason_message, /approved by admin/);
    // Arrow keys follow the edges, Enter opens the step with its explanation.
    await page.getByRole('link', { name: /^build/ }).focus();
    for (const key of ['ArrowRight', 'ArrowRight', 'ArrowRight', 'Enter']) await page.keyboard.press(key);
    const ship = page.getByRole('region', { name: 'Step ship' });
    await ship.getByText('Rule ALL_SUCCESS').waitFor();
    await until('the step in the address', () => page.url().includes('step=ship'));
    // The dry run says what would run before anything does.
    await button(page, 'Re-run from here…').click();
    await dialog.getByText('2 steps', { exact: true }).waitFor();
    await dialog.getByText('3 steps would be adopted (3 completed)').waitFor();
    await dialog.getByLabel('Begin').selectOption('ALL');
    await dialog.getByText('5 steps', { exact: true }).waitFor();
    await dialog.getByLabel('Begin').selectOption('TASK');
    await dialog.getByRole('button', { name: 'Re-run 2 steps' }).click();
    await until('the new run', () => !page.url().includes(id));
    await page.getByText('re-run of').waitFor();
    const again = page.url().split('/workflow-runs/')[1].split('?')[0];
    await over(call, again);
    await page.getByRole('link', { name: /^ship, FAILED/ }).waitFor();
    // Items of a fan-out, and their results.
    await page.goto(`${server.url}/ui/workflow-runs/${id}?step=test`);
    await page.getByRole('region', { name: 'Step test' }).getByRole('link', { name: /test\[2\]/ }).click();
    await page.getByRole('region', { name: 'Step test' }).getByText('All items of test').waitFor();
    // Gantt, table, comparison and grid of the same run.
    await page.getByRole('link', { name: 'Gantt', exact: true }).click();
    await page.getByRole('region', { name: 'Gantt chart' }).getByRole('img', { name: /^COMPLETED, / }).first().waitFor();
    await pressUntil(page, ['3'], page.getByRole('region', { name: 'Steps', exact: true }));
    await page.getByRole('row', { name: /ship, FAILED/ }).waitFor();
    await button(page, 'Failed').click();
    await untilEqual('failed steps', 1, () => page.locator('td [data-row]').count());
    await page.getByRole('link', { name: 'Compare', exact: true }).click();
    await page.getByRole('combobox', { name: 'Other run' }).waitFor();
    await page.getByRole('link', { name: 'Why', exact: true }).click();
    await page.getByRole('region', { name: 'Why' }).getByRole('listitem').first().waitFor();
    await page.getByRole('link', { name: 'Grid', exact: true }).click();
    const cells = page.getByRole('region', { name: 'Table of steps and runs' });
    await cells.getByRole('link', { name: /^ship: FAILED/ }).focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await until('the newest run', () => page.url().includes(again) && page.url().includes('step=ship'));
    await settled(page);
    await check('workflow');
    await context.close();
  },

  async stepsAreMarkedAndRunsHeldAndCancelled({ server, browser, service }) {
    const { page, check, context } = await openPage(browser);
    const { call } = server;
    await call('POST', '/v1/dags', {
      name: 'held', on_task_failure: 'HOLD',
      tasks: [step('a', [], { payload: { endpoint: `${service.url}/broken`, method: 'GET' } }), step('b'), step('wait', ['b'], { payload: { type: 'APPROVAL' } }), step('c', ['wait'])],
    });
    const id = await trigger(call, 'held');
    await until('the hold', async () => (await call('GET', `/v1/dag-runs/${id}`)).control === 'HELD');
    await login(page, server.url, server.key);
    await page.goto(`${server.url}/ui/workflow-runs/${id}?step=wait`);
    await page.getByText('the run holds').waitFor();
    const dialog = page.getByRole('dialog');
    await button(page, 'Resume…').click();
    await dialog.getByRole('button', { name: 'Resume' }).click();
    await untilEqual('control', 'RUNNING', async () => (await call('GET', `/v1/dag-runs/${id}`)).control);
    await page.getByRole('link', { name: /^wait, RUNNING/ }).waitFor();
    await page.getByRole('region', { name: 'Step wait' }).getByRole('button', { name: 'Mark as…' }).click();
    await dialog.getByLabel('As', { exact: true }).selectOption('SKIPPED');
    await dialog.getByRole('button', { name: 'Mark' }).click();
    await page.getByRole('link', { name: /^c, SKIPPED/ }).waitFor();
    assert.equal((await over(call, id)).status, 'FAILED');
    const second = await trigger(call, 'held');
    await until('the hold', async () => (await call('GET', `/v1/dag-runs/${second}`)).control === 'HELD');
    await page.goto(`${server.url}/ui/workflow-runs/${second}`);
    await button(page, 'Cancel…').click();
    await dialog.getByRole('button', { name: 'Cancel the run' }).click();
    assert.equal((await over(call, second)).status, 'CANCELLED');
    await page.goto(`${server.url}/ui/workflows/held/runs`);
    await page.getByRole('link', { name: 'CANCELLED, open this run' }).waitFor();
    await button(page, 'Pause…').click();
    await dialog.getByRole('button', { name: 'Pause' }).click();
    await page.getByText('held paused.', { exact: true }).waitFor();
    assert.equal((await call('GET', '/v1/dags/held')).status, 'PAUSED');
    await check('held');
    await context.close();
  },

  async searchOverviewAndRunsLeadToWorkflows({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser, { expected: (text) => text.includes('status of 404') });
    const { call } = server;
    await login(page, server.url, server.key);
    const search = page.getByRole('combobox', { name: 'Search' });
    await pressUntil(page, ['Control+k'], search);
    await search.fill('etl-pipe');
    await page.getByRole('option', { name: /etl-pipeline workflow/ }).waitFor();
    await search.fill('email');
    await page.getByRole('option', { name: /emails queue/ }).waitFor();
    await search.fill('etl-pipe');
    await page.getByRole('option', { name: /etl-pipeline workflow/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'etl-pipeline' }).waitFor();
    // A failing workflow needs attention; its run opens as a workflow.
    await page.goto(`${server.url}/ui/`);
    await page.getByRole('row', { name: /etl-pipeline/ }).getByRole('link', { name: 'Open run' }).click();
    await until('the run of the workflow', () => page.url().includes('/workflow-runs/'));
    // A link that knows only the name of a job or the id of a run finds the workflow.
    await page.goto(`${server.url}/ui/jobs/etl-pipeline`);
    await until('the workflow', () => page.url().endsWith('/workflows/etl-pipeline'));
    await page.goto(`${server.url}/ui/runs/${seeded.dagRun}`);
    await until('the run of the workflow', () => page.url().includes(`/workflow-runs/${seeded.dagRun}`));
    // The run of a step has its output, and leads back to the step.
    const { execution_id: id } = await call('GET', `/v1/dag-runs/${seeded.dagRun}/tasks/check`);
    await page.goto(`${server.url}/ui/runs/${id}`);
    await page.getByRole('link', { name: 'check', exact: true }).click();
    await page.getByRole('region', { name: 'Step check' }).waitFor();
    await check('joined');
    await context.close();
  },

  async readersOfAWorkflowAreOfferedNoAct({ server, browser, seeded }) {
    const { page, check, context } = await openPage(browser);
    await page.goto(`${server.url}/ui/workflow-runs/${seeded.dagRun}?step=publish`);
    await page.getByLabel('User').fill('vera');
    await page.getByLabel('Password', { exact: true }).last().fill('correct horse battery');
    await button(page, 'Log in').click();
    await page.getByRole('region', { name: 'Step publish' }).getByText('Rule ALL_SUCCESS').waitFor();
    await settled(page);
    for (const name of ['Cancel…', 'Re-run…', 'Approve…', 'Reject…', 'Mark as…']) assert.equal(await button(page, name).count(), 0, name);
    await check('reader');
    await context.close();
  },

  async tenThousandStepsStayUsable({ server, browser }) {
    const { page, check, context } = await openPage(browser);
    const { call } = server;
    // Most of them are skipped: a build for tests needs minutes to execute ten thousand.
    const wide = Array.from({ length: 9898 }, (_, n) => step(`wide-${n}`, ['first'], n < 98 ? {} : { when: 'config.deep = true' }));
    const tasks = [step('first'), ...wide, step('join', wide.map((it) => it.name), { trigger_rule: 'ALL_DONE', payload: { type: 'APPROVAL' } })];
    for (let n = 0; n < 100; n++) tasks.push(step(`chain-${n}`, [n ? `chain-${n - 1}` : 'join']));
    await call('POST', '/v1/dags', { name: 'huge', config: { deep: false }, tasks });
    const id = await trigger(call, 'huge');
    await until('the join', async () => (await columns(call, id)).statuses[9899] === 'R');
    await page.addInitScript(watchTasks);
    await login(page, server.url, server.key);
    // The table comes first, and only what is in view is drawn.
    await page.goto(`${server.url}/ui/workflow-runs/${id}`);
    const table = page.getByRole('region', { name: 'Table of steps' });
    await table.getByRole('link', { name: /^first, COMPLETED/ }).waitFor();
    await page.getByText('10\u202f000 of 10\u202f000 steps').waitFor();
    const drawn = () => page.evaluate(() => document.querySelectorAll('main *').length);
    assert.ok((await drawn()) < 1500, `${await drawn()} elements`);
    await table.evaluate((it) => (it.scrollTop = it.scrollHeight));
    await table.getByRole('link', { name: /^chain-99, PENDING/ }).waitFor();
    await page.getByLabel('Filter steps').fill('wide-9897');
    await untilEqual('steps found', 1, () => page.locator('td [data-row]').count());
    await page.getByLabel('Filter steps').fill('');
    // The graph has the siblings as one box, which opens a hundred at a time.
    await page.getByRole('link', { name: 'Graph', exact: true }).click();
    const group = page.getByRole('link', { name: /^wide-0 and 9.897 more: 98 completed, 9.800 skipped/ });
    await group.click();
    await page.getByRole('link', { name: /^wide-3, COMPLETED/ }).waitFor();
    assert.ok((await drawn()) < 1500, `${await drawn()} elements`);
    await button(page, 'Close groups').click();
    await group.focus();
    for (const key of ['ArrowRight', 'ArrowRight', 'ArrowRight', 'Enter']) await page.keyboard.press(key);
    await page.getByRole('region', { name: 'Step chain-1' }).getByText('Rule ALL_SUCCESS').waitFor();
    await page.getByRole('link', { name: 'Gantt', exact: true }).click();
    await page.getByRole('img', { name: /^COMPLETED, / }).first().waitFor();
    assert.ok((await drawn()) < 1500, `${await drawn()} elements`);
    await page.goto(`${server.url}/ui/workflows/huge`);
    await page.getByText('Steps 1 to 200 of 10\u202f000').waitFor();
    await button(page, 'After').click();
    await page.getByRole('link', { name: /^wide-199: SKIPPED/ }).waitFor();
    const longest = await page.evaluate(() => Math.max(0, ...window.tasks));
    console.log(`      longest task of the grid ${Math.round(longest)} ms`);
    await call('POST', `/v1/dag-runs/${id}/cancel`, {});
    await check('huge');
    await context.close();
  },
};
