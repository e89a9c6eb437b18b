// What is administered, as data: where each kind is in the API, what its list and its form show. One
// page shows them all.

import { session } from '../../api/session.svelte.ts';
import { address } from '../../route/address.ts';
import type { paths } from '../../api/schema.d.ts';

export type Row = Record<string, unknown>;
/** A field of a row, its title, and how it is shown. */
export type Column = [name: string, title: string, form?: 'time' | 'code' | 'size' | 'digest' | 'run'];
export type Field = {
  name: string;
  label: string;
  hint?: string;
  /** `lines` and `commas` are lists of texts, `choice` is a list of those that exist. */
  form?: 'password' | 'check' | 'lines' | 'commas' | 'number' | 'choice';
  choices?: string[];
  isNeeded?: boolean;
  /** Given once, when it is created. */
  isFixed?: boolean;
};

export type Kind = {
  at: string;
  name: string;
  /** What one of them is called. */
  one: string;
  about: string;
  /** The list in the API. A row is below it, by its field `id`. */
  path: keyof paths;
  id: string;
  isSeen: () => boolean;
  mayChange: () => boolean;
  columns: Column[];
  /** The parameter of the address that narrows the list. */
  query?: string;
  /** The kind from whose rows this list is reached. */
  of?: string;
  title?: (row: Row) => string;
  fields?: Field[];
  /** It is made by PUT below its name. */
  isPut?: boolean;
  mayEdit?: boolean;
  canTest?: boolean;
  /** The field of the answer that is shown once. */
  once?: string;
  /** What follows from removing one; without it, none is removed. */
  removal?: string;
  /** The address of a row in the API, where it is not the list's and the id. */
  row?: (row: Row) => string;
  /** Where more about a row is. */
  more?: { title: string; href: (row: Row) => string };
  /** The field of a row's own answer that has the names of the jobs which use it. */
  users?: string;
};

const NAME: Field = { name: 'name', label: 'Name', isNeeded: true, isFixed: true };
const TEXT: Field = { name: 'description', label: 'Description' };
const NAMED: Column = ['name', 'Name'];
const DESCRIBED: Column = ['description', 'Description'];
const MADE: Column = ['created_at', 'Created', 'time'];
const admin = {
  isSeen: () => session.has('ADMINISTER TENANT'),
  mayChange: () => session.may('ADMINISTER TENANT'),
};
/** As the server names them. */
const ALERTS = [
  'JOB_FAILED', 'JOB_MAX_RETRIES_EXCEEDED', 'JOB_RECOVERED', 'RUN_MISSED', 'RUN_LATE', 'RUN_HELD', 'RUN_SKIPPED_UPSTREAM', 'DEAD_LETTERS_WAITING',
  'DAG_ALERT', 'DAG_SLOWER', 'NODE_CLOCK_OFFSET', 'NODE_SETTINGS_DRIFT', 'NODE_SLOTS_FULL',
];

export const kinds: Kind[] = [
  {
    ...admin, at: 'users', name: 'Users', one: 'user', about: 'People and programs of this tenant. Grants say what each may do.',
    path: '/v1/users', id: 'user_id', mayEdit: true,
    columns: [NAMED, ['has_password', 'Password'], ['disabled', 'Disabled'], MADE],
    fields: [NAME, { name: 'password', label: 'Password', form: 'password', hint: '8 to 256 bytes; empty for a user with keys only, or to keep it' }, { name: 'disabled', label: 'Disabled: the user cannot log in, and keys of the user do not work', form: 'check' }],
    more: { title: 'Keys', href: (it) => address.admin('keys', { user: String(it.name) }) },
    removal: 'Keys of the user stop working, and sessions end. A user who owns jobs cannot be removed.',
  },
  {
    ...admin, at: 'roles', name: 'Roles', one: 'role', about: 'Names for grants that several users have.',
    path: '/v1/roles', id: 'role_id', mayEdit: true,
    columns: [NAMED, DESCRIBED, ['run_as', 'Database role'], MADE],
    fields: [NAME, TEXT],
    more: { title: 'Grants', href: (it) => address.admin('grants', { to_role: String(it.name) }) },
    removal: 'Users lose the privileges of this role.',
  },
  {
    ...admin, at: 'grants', name: 'Grants', one: 'grant', about: 'Privileges and roles that users and roles were given.',
    path: '/v1/grants', id: 'grant_id', query: 'to_role', title: (it) => `${String(it.privilege ?? it.role)} to ${String(it.to_user ?? it.to_role)}`,
    columns: [['to_user', 'To the user'], ['to_role', 'To the role'], ['privilege', 'Privilege'], ['role', 'Role']],
    fields: [
      { name: 'to_user', label: 'To the user' }, { name: 'to_role', label: 'or to the role' },
      { name: 'privilege', label: 'Privilege', hint: 'such as CREATE JOB, VIEW JOB HISTORY, CONSUME ON QUEUE emails' }, { name: 'role', label: 'or all that a role has' },
    ],
    removal: 'It ends at once, also for open sessions.',
  },
  {
    at: 'keys', name: 'Keys', one: 'key', about: 'API keys and browser sessions.', isSeen: () => true, mayChange: () => !session.identity?.read_only,
    path: '/v1/keys', id: 'key_id', query: 'user', title: (it) => String(it.label || it.key_id), once: 'key',
    columns: [['label', 'Label'], ['key_id', 'Id', 'code'], ['scopes', 'Only'], ['read_only', 'Read-only'], ['session', 'Session'], MADE, ['expires_at', 'Expires', 'time']],
    fields: [{ name: 'label', label: 'Label', hint: 'what it is for', isNeeded: true }, { name: 'user', label: 'User', hint: 'empty for yourself' }, { name: 'read_only', label: 'Read-only: it changes nothing', form: 'check' }],
    removal: 'Every session and program that uses it loses access at once.',
  },
  {
    ...admin, at: 'secrets', name: 'Secrets', one: 'secret', about: 'Values that jobs use and no page shows.',
    path: '/v1/secrets', id: 'name', isPut: true,
    row: (it) => `${encodeURIComponent(String(it.name))}?scope=${String(it.scope)}${it.job_id ? `&job=${String(it.job_id)}` : ''}`,
    columns: [NAMED, ['scope', 'Scope'], ['job_name', 'Job'], ['version', 'Version'], ['updated_by', 'Changed by'], ['updated_at', 'Changed', 'time']],
    fields: [NAME, { name: 'value', label: 'Value', form: 'password', hint: 'it is never shown again', isNeeded: true }],
    removal: 'Runs that need it fail from now on.',
  },
  {
    ...admin, at: 'databases', name: 'Databases', one: 'database', about: 'Databases that SQL jobs work in.',
    path: '/v1/databases', id: 'name', mayEdit: true, canTest: true,
    columns: [NAMED, ['kind', 'Kind'], ['url', 'Address', 'code'], ['source', 'From'], DESCRIBED],
    fields: [NAME, { name: 'url', label: 'Address', hint: 'postgres://user@host/database; a password belongs into a secret', isNeeded: true }, TEXT],
    removal: 'Jobs that use it fail from now on.',
  },
  {
    ...admin, at: 'channels', name: 'Alerts', one: 'channel', about: 'Rules of alerts: which kinds are posted to which address, signed with a secret.',
    path: '/v1/alert-channels', id: 'name', mayEdit: true, canTest: true,
    columns: [NAMED, ['url', 'Address', 'code'], ['kinds', 'Kinds; all if empty'], ['enabled', 'Enabled'], ['has_secret', 'Signed']],
    fields: [
      NAME, { name: 'url', label: 'Address', hint: 'https://…; what follows the host is not shown again', isNeeded: true },
      { name: 'secret', label: 'Signing secret', form: 'password', hint: 'whsec_ and 24 to 64 bytes in base64; empty to keep it' },
      { name: 'kinds', label: 'Kinds of alerts; none chosen means all', form: 'choice', choices: ALERTS }, { name: 'enabled', label: 'Enabled', form: 'check' },
    ],
    more: { title: 'Deliveries', href: (it) => address.admin('deliveries', { channel: String(it.name) }) },
    removal: 'No alert is delivered to it any more.',
  },
  {
    ...admin, at: 'deliveries', of: 'channels', query: 'channel', name: 'Deliveries', one: 'delivery', about: 'Alerts that the channel has delivered or tries to deliver, newest first.',
    path: '/v1/alert-channels/{name}/deliveries', id: 'alert_id',
    columns: [['at', 'Raised', 'time'], ['kind', 'Kind'], ['text', 'Text'], ['status', 'Status'], ['tries', 'Tries'], ['last_try_at', 'Last try', 'time'], ['next_try_at', 'Next try', 'time'], ['error', 'Error'], ['execution_id', 'Run', 'run']],
  },
  {
    ...admin, at: 'calendars', name: 'Calendars', one: 'calendar', about: 'Named days that schedules exclude or include.',
    path: '/v1/calendars', id: 'name', mayEdit: true,
    columns: [NAMED, ['days', 'Days'], ['next_days', 'Next'], DESCRIBED],
    fields: [NAME, { name: 'days', label: 'Days', form: 'lines', hint: 'one in a line: 2026-12-25, 12-24..12-26, SAT,SUN, EASTER+1', isNeeded: true }, TEXT],
    removal: 'A calendar that a job uses cannot be removed.',
  },
  {
    ...admin, at: 'pools', name: 'Pools', one: 'pool', about: 'Limits for runs of several jobs together.',
    path: '/v1/pools', id: 'name', mayEdit: true,
    columns: [NAMED, ['size', 'Size'], ['used', 'Used'], ['waiting', 'Waiting'], DESCRIBED],
    fields: [NAME, { name: 'size', label: 'Size', form: 'number', hint: 'the total weight of runs at the same time', isNeeded: true }, TEXT],
    removal: 'A pool that a job uses cannot be removed.',
  },
  {
    ...admin, at: 'hooks', name: 'Hooks', one: 'hook', about: 'Addresses at which other programs trigger a job.',
    path: '/v1/hooks', id: 'name', mayEdit: true, once: 'secret',
    columns: [NAMED, ['path', 'Address', 'code'], ['job', 'Job'], ['scheme', 'Checked by'], ['requests_per_second', 'Per second'], ['disabled', 'Disabled'], DESCRIBED],
    fields: [NAME, { name: 'job', label: 'Job', isNeeded: true }, { name: 'scheme', label: 'Checked by', hint: 'STANDARD, GITHUB or TOKEN; empty for STANDARD' }, { name: 'disabled', label: 'Disabled: deliveries are refused', form: 'check' }, TEXT],
    removal: 'Deliveries to its address are refused from now on.',
  },
  {
    at: 'artifacts', name: 'Artifacts', one: 'version', about: 'Versions of code that jobs run. Push one with: punctual artifact push FOLDER --name NAME',
    isSeen: () => ['PUSH', 'USE', 'DELETE'].some((it) => session.has(`${it} ARTIFACT`)), mayChange: () => session.may('DELETE ARTIFACT'),
    path: '/v1/artifacts', id: 'artifact_id', query: 'name', title: (it) => String(it.artifact_id), users: 'used_by',
    row: (it) => `${encodeURIComponent(String(it.name))}/versions/${String(it.version)}`,
    columns: [['artifact_id', 'Version'], ['digest', 'Digest', 'digest'], ['bytes', 'Size', 'size'], ['unpacked_bytes', 'Unpacked', 'size'], ['entries', 'Files'], ['labels', 'Labels'], ['created_by', 'Pushed by'], ['created_at', 'Pushed', 'time']],
    removal: 'Its number is not used again. A version that a job uses cannot be removed.',
  },
  {
    ...admin, at: 'status-pages', name: 'Status pages', one: 'status page', about: 'Pages that show how jobs with chosen tags are doing. A public page needs no login and shows names of jobs and outcomes of runs, nothing else.',
    path: '/v1/status-pages', id: 'name', mayEdit: true,
    columns: [NAMED, ['title', 'Title'], ['tags', 'Tags'], ['is_public', 'Public'], ['path', 'Address', 'code']],
    fields: [{ ...NAME, hint: 'the last part of its address' }, { name: 'title', label: 'Title', isNeeded: true }, { name: 'tags', label: 'Tags', form: 'commas', hint: 'with commas between them', isNeeded: true }, { name: 'is_public', label: 'Public: everyone who knows the address may read it', form: 'check' }],
    removal: 'Its address answers nothing any more.',
  },
  {
    at: 'settings', name: 'Settings', one: 'setting', about: 'The settings of this server and where each comes from. Change them in the settings file, the environment or on the command line.',
    isSeen: () => session.has('ADMINISTER CLUSTER'), mayChange: () => false, path: '/v1/configuration', id: 'name',
    columns: [['name', 'Name', 'code'], ['value', 'Value', 'code'], ['origin', 'From'], ['meaning', 'Meaning']],
  },
];
