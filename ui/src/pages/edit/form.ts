// The form of a job: what it shows of a definition, and the definition that it makes. What the
// form has no field for stays as it is.

export type Values = Record<string, unknown>;

export type JobForm = {
  name: string;
  description: string;
  tags: string;
  action: string;
  payload: { endpoint: string; method: string; body: string; sql: string; database: string; procedure: string; command: string; arguments: string; target: string; queue: string; message: string; workspace: string };
  kind: string;
  cron: string;
  zone: string;
  gap: string;
  repeated: string;
  interval: string;
  runAt: string;
  overlap: string;
  catchUp: string;
  deadline: string;
  attempts: string;
  timeout: string;
  priority: string;
  dependsOn: string;
};

export const ACTIONS = ['HTTP', 'SQL', 'PROCEDURE', 'EXTERNAL', 'QUEUE', 'BACKUP', 'NOOP'];
export const KINDS = ['CRON', 'INTERVAL', 'ONE_TIME', 'MANUAL', 'DEPENDENT'];

/** Fields that an answer has and a definition does not. */
export const READ_ONLY = [
  'job_id', 'created_by', 'next_run_time', 'last_run_time', 'last_status', 'created_at', 'updated_at',
  'warnings', 'schedule_text', 'last_outcomes', 'may', 'version',
];

const text = (value: unknown): string =>
  value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value);

export function definitionOf(job: Values): Values {
  return Object.fromEntries(Object.entries(job).filter(([name]) => !READ_ONLY.includes(name)));
}

export function formOf(job: Values): JobForm {
  const payload = (job.payload ?? {}) as Values;
  const retry = (job.retry_config ?? {}) as Values;
  const dst = (job.dst ?? {}) as Values;
  const attempts = retry.max_attempts ?? (typeof retry.max_retries === 'number' ? retry.max_retries + 1 : undefined);
  const upstream = ((job.depends_on ?? []) as (string | Values)[]).map((it) => (typeof it === 'string' ? it : text(it.job)));
  const implied = payload.endpoint ? 'HTTP' : payload.sql ? 'SQL' : payload.procedure ? 'PROCEDURE' : payload.command ? 'EXTERNAL' : payload.queue ? 'QUEUE' : 'NOOP';
  return {
    name: text(job.name),
    description: text(job.description),
    tags: ((job.tags ?? []) as string[]).join(', '),
    action: text(payload.type) || implied,
    payload: {
      endpoint: text(payload.endpoint), method: text(payload.method), body: text(payload.body),
      sql: text(payload.sql), database: text(payload.database), procedure: text(payload.procedure),
      command: text(payload.command), target: text(payload.target),
      queue: text(payload.queue), message: text(payload.message), workspace: text(payload.workspace),
      arguments: ((payload.arguments ?? []) as unknown[]).map(text).join('\n'),
    },
    kind: text(job.job_type) || 'CRON',
    cron: text(job.cron_expression),
    zone: text(job.timezone),
    gap: text(dst.gap),
    repeated: text(dst.overlap),
    interval: text(job.interval_seconds),
    runAt: text(job.run_at),
    overlap: text(job.overlap),
    catchUp: text(job.catch_up),
    deadline: text(job.start_deadline_seconds),
    attempts: text(attempts),
    timeout: text(job.timeout_seconds),
    priority: text(job.priority),
    dependsOn: upstream.join(', '),
  };
}

/** A number of seconds, or a duration as text: the server reads both. */
function seconds(value: string): unknown {
  const trimmed = value.trim();
  if (!trimmed) return undefined;
  return Number.isNaN(Number(trimmed)) ? trimmed : Number(trimmed);
}

const list = (value: string): string[] => value.split(',').map((it) => it.trim()).filter(Boolean);

function payloadOf(form: JobForm, before: Values): Values {
  const old = before.type === form.action || (!before.type && form.action !== 'NOOP') ? { ...before } : {};
  const it = form.payload;
  const set = (name: string, value: unknown) => {
    if (value === undefined || value === '') delete old[name];
    else old[name] = value;
  };
  set('type', form.action);
  if (form.action === 'HTTP') {
    set('endpoint', it.endpoint.trim());
    set('method', it.method.trim());
    set('body', jsonOrText(it.body));
  } else if (form.action === 'SQL') {
    set('sql', it.sql);
    set('database', it.database.trim());
  } else if (form.action === 'PROCEDURE') {
    set('procedure', it.procedure.trim());
    set('database', it.database.trim());
    set('arguments', it.arguments.trim() ? it.arguments.split('\n').map(jsonOrText) : undefined);
  } else if (form.action === 'EXTERNAL') {
    set('command', it.command.trim());
    set('arguments', it.arguments.trim() ? it.arguments.split('\n') : undefined);
  } else if (form.action === 'QUEUE') {
    set('queue', it.queue.trim());
    set('message', jsonOrText(it.message));
    set('workspace', it.workspace.trim());
  } else if (form.action === 'BACKUP') set('target', it.target.trim());
  return old;
}

function jsonOrText(value: string): unknown {
  if (!value.trim()) return undefined;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

/** The definition that the form asks for, based on the one that it was filled from. */
export function definitionFrom(form: JobForm, base: Values): Values {
  const made: Values = { ...base };
  const set = (name: string, value: unknown) => {
    if (value === undefined || value === '' || (Array.isArray(value) && !value.length)) delete made[name];
    else made[name] = value;
  };
  set('name', form.name.trim());
  set('description', form.description.trim());
  set('tags', list(form.tags));
  set('payload', payloadOf(form, (base.payload ?? {}) as Values));
  for (const name of ['cron_expression', 'timezone', 'dst', 'interval_seconds', 'run_at', 'delay_seconds']) delete made[name];
  if (form.kind !== 'INTERVAL') {
    delete made.starts_at;
    delete made.ends_at;
  }
  made.job_type = form.kind;
  if (form.kind === 'CRON') {
    set('cron_expression', form.cron.trim());
    const dst = { ...(form.gap ? { gap: form.gap } : {}), ...(form.repeated ? { overlap: form.repeated } : {}) };
    if (Object.keys(dst).length) made.dst = dst;
  }
  if (form.kind === 'CRON' || form.kind === 'ONE_TIME') set('timezone', form.zone.trim());
  if (form.kind === 'INTERVAL') set('interval_seconds', seconds(form.interval));
  if (form.kind === 'ONE_TIME') set('run_at', form.runAt.trim());
  set('overlap', form.overlap);
  set('catch_up', form.catchUp);
  set('start_deadline_seconds', seconds(form.deadline));
  set('timeout_seconds', seconds(form.timeout));
  set('priority', form.priority.trim() ? Number(form.priority) : undefined);
  const retry = { ...((base.retry_config ?? {}) as Values) };
  delete retry.max_retries;
  if (form.attempts.trim()) retry.max_attempts = Number(form.attempts);
  else delete retry.max_attempts;
  if (Object.keys(retry).length) made.retry_config = retry;
  else delete made.retry_config;
  const known = ((base.depends_on ?? []) as (string | Values)[]);
  set('depends_on', list(form.dependsOn).map((name) => known.find((it) => (typeof it === 'string' ? it : it.job) === name) ?? name));
  return made;
}

/** Whether what a definition cannot do without has been typed. */
export function isFilled(definition: Values): boolean {
  const payload = (definition.payload ?? {}) as Values;
  const needed: Record<string, string> = { HTTP: 'endpoint', SQL: 'sql', PROCEDURE: 'procedure', EXTERNAL: 'command', QUEUE: 'queue', BACKUP: 'target' };
  const schedule: Record<string, string> = { CRON: 'cron_expression', INTERVAL: 'interval_seconds', ONE_TIME: 'run_at', DEPENDENT: 'depends_on' };
  const field = needed[String(payload.type)];
  const when = schedule[String(definition.job_type)];
  return (!field || !!payload[field]) && (!when || !!definition[when]);
}

/** The field of the form that a field of the API belongs to. */
export function inputOf(field: string): string {
  const head = field.split(/[.[]/)[0] ?? '';
  const names: Record<string, string> = {
    cron_expression: 'cron', timezone: 'zone', interval_seconds: 'interval', run_at: 'run-at', dst: 'gap',
    catch_up: 'catch-up', start_deadline_seconds: 'deadline', timeout_seconds: 'timeout', retry_config: 'attempts',
    depends_on: 'depends-on', job_type: 'kind',
  };
  if (head === 'payload') return field.split('.')[1] ?? 'action';
  return names[head] ?? head;
}
