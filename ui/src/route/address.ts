// All addresses of the dashboard, relative to the base of the page.

const part = encodeURIComponent;

export type Query = Record<string, string | undefined>;

export function withQuery(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) params.set(name, value);
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

export const address = {
  overview: () => './',
  jobs: (query?: Query) => withQuery('jobs', query),
  newJob: (from?: string) => withQuery('new-job', { from }),
  job: (job: string, tab = '') => `jobs/${part(job)}${tab ? `/${tab}` : ''}`,
  why: (job: string, at: string) => `jobs/${part(job)}/at/${part(at)}`,
  runs: (query?: Query) => withQuery('runs', query),
  run: (id: string, query?: Query) => withQuery(`runs/${part(id)}`, query),
  workflows: () => 'workflows',
  workflow: (dag: string, tab = '') => `workflows/${part(dag)}${tab ? `/${tab}` : ''}`,
  workflowRun: (id: string, query?: Query) => withQuery(`workflow-runs/${part(id)}`, query),
  queues: () => 'queues',
  queue: (queue: string, tab = '') => `queues/${part(queue)}${tab ? `/${tab}` : ''}`,
  deadLetters: () => 'dead-letters',
  fleet: (query?: Query) => withQuery('lab/fleet', query),
  lab: (query?: Query) => withQuery('lab', query),
  sql: () => 'sql',
  audit: (query?: Query) => withQuery('audit', query),
  cluster: () => 'cluster',
  admin: (kind = '', query?: Query) => withQuery(`administration${kind ? `/${kind}` : ''}`, query),
  /** The job of a run, the workflow of a step, or the queue of a message. */
  ofRun: (run: { job_name?: string | null; origin: string; dag_run_id?: string | null }) =>
    (run.origin === 'MESSAGE' ? address.queue : run.dag_run_id ? address.workflow : address.job)(run.job_name ?? ''),
  login: (next?: string) => withQuery('login', { next }),
};
