import type { Routes } from './router.svelte.ts';
import Overview from '../pages/overview/Page.svelte';
import Jobs from '../pages/jobs/Page.svelte';
import Job from '../pages/job/Page.svelte';
import Run from '../pages/run/Page.svelte';

// The main pages are in the first load: during an upgrade another node may lack a file.
const here = <T>(page: T) => () => Promise.resolve({ default: page }) as never;

const operate = (name: keyof typeof import('../pages/operate.ts')) => () => import('../pages/operate.ts').then((it) => ({ default: it[name] })) as never;

const flow = (name: keyof typeof import('../pages/flow.ts')) => () => import('../pages/flow.ts').then((it) => ({ default: it[name] })) as never;

export const routes: Routes = {
  '': here(Overview),
  jobs: here(Jobs),
  'new-job': () => import('../pages/edit/Page.svelte') as never,
  'jobs/:job': here(Job),
  'jobs/:job/history': here(Job),
  'jobs/:job/calendar': here(Job),
  'jobs/:job/schedule': here(Job),
  'jobs/:job/definition': here(Job),
  'jobs/:job/graph': here(Job),
  'jobs/:job/edit': () => import('../pages/edit/Page.svelte') as never,
  'jobs/:job/at/:at': () => import('../pages/job/Why.svelte') as never,
  runs: () => import('../pages/runs/Page.svelte') as never,
  'runs/:id': here(Run),
  workflows: flow('Workflows'),
  'workflows/:dag': flow('Workflow'),
  'workflows/:dag/runs': flow('Workflow'),
  'workflows/:dag/definition': flow('Workflow'),
  'workflow-runs/:id': flow('WorkflowRun'),
  queues: operate('Queues'),
  'queues/:queue': operate('Queue'),
  'queues/:queue/messages': operate('Queue'),
  'queues/:queue/dead-letters': operate('Queue'),
  'queues/:queue/settings': operate('Queue'),
  'dead-letters': operate('DeadLetters'),
  sql: operate('Sql'),
  audit: operate('Audit'),
  cluster: operate('Cluster'),
  administration: operate('Administration'),
  'administration/:kind': operate('Administration'),
  'lab/fleet': () => import('../pages/lab/Fleet.svelte') as never,
  lab: () => import('../pages/lab/Page.svelte') as never,
  login: here(Overview),
  '*': () => import('../pages/NotFound.svelte') as never,
};
