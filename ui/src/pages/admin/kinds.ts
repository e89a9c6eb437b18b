// What is administered: how each kind is listed, made and removed. One page shows them all.

import { api, data, type Schema } from '../../api/client.ts';
import { session } from '../../api/session.svelte.ts';
import { address } from '../../route/address.ts';
import { router } from '../../route/router.svelte.ts';

export type Row = Record<string, unknown>;
export type Column = { name: string; title: string; form?: 'time' | 'list' | 'code' };
export type Field = { name: string; label: string; hint?: string; form?: 'password' | 'check' | 'area'; isNeeded?: boolean };
type Values = Record<string, string | boolean>;

export type Kind = {
  at: string;
  name: string;
  /** What one of them is called. */
  one: string;
  about: string;
  isSeen: () => boolean;
  mayChange: () => boolean;
  columns: Column[];
  /** What names a row. */
  title: (row: Row) => string;
  key: (row: Row) => string;
  list: (cursor: string | undefined, signal: AbortSignal) => Promise<{ data: Row[]; next_cursor?: string | null }>;
  fields?: Field[];
  /** Makes one; answers what is shown once. */
  make?: (values: Values) => Promise<string | undefined>;
  /** What follows from removing one. */
  removal?: string;
  remove?: (row: Row) => Promise<unknown>;
  /** Where more about a row is. */
  more?: { title: string; href: (row: Row) => string };
  /** Tries one out; answers what was found. */
  test?: (row: Row) => Promise<string>;
};

const text = (values: Values, name: string): string => String(values[name] ?? '').trim();
const or = (values: Values, name: string): string | undefined => text(values, name) || undefined;
const admin = () => session.has('ADMINISTER TENANT');
const mayAdmin = () => session.may('ADMINISTER TENANT');
const rows = <T>(answer: { data: T[]; next_cursor?: string | null }) => answer as unknown as { data: Row[]; next_cursor?: string | null };
const page = (cursor: string | undefined) => ({ query: { limit: 100, cursor } });

export const kinds: Kind[] = [
  {
    at: 'users', name: 'Users', one: 'user', about: 'People and programs of this tenant. Grants say what each may do.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => String(it.name), key: (it) => String(it.user_id),
    columns: [{ name: 'name', title: 'Name' }, { name: 'has_password', title: 'Password' }, { name: 'disabled', title: 'Disabled' }, { name: 'created_at', title: 'Created', form: 'time' }],
    list: async (cursor, signal) => rows(await data(api.GET('/v1/users', { params: page(cursor), signal }))),
    fields: [{ name: 'name', label: 'Name', isNeeded: true }, { name: 'password', label: 'Password', form: 'password', hint: '8 to 256 bytes; empty for a user who has keys only' }],
    make: async (it) => void (await data(api.POST('/v1/users', { body: { name: text(it, 'name'), password: or(it, 'password') ?? null } as Schema['UserSpec'] }))),
    more: { title: 'Keys', href: (it) => address.admin('keys', { user: String(it.name) }) },
    removal: 'Their keys stop working and their sessions end. A user who owns jobs cannot be removed.',
    remove: (it) => data(api.DELETE('/v1/users/{user}', { params: { path: { user: String(it.user_id) } } })),
  },
  {
    at: 'roles', name: 'Roles', one: 'role', about: 'Names for grants that several users have.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => String(it.name), key: (it) => String(it.role_id),
    columns: [{ name: 'name', title: 'Name' }, { name: 'description', title: 'Description' }, { name: 'run_as', title: 'Database role' }, { name: 'created_at', title: 'Created', form: 'time' }],
    list: async (cursor, signal) => rows(await data(api.GET('/v1/roles', { params: page(cursor), signal }))),
    fields: [{ name: 'name', label: 'Name', isNeeded: true }, { name: 'description', label: 'Description' }],
    make: async (it) => void (await data(api.POST('/v1/roles', { body: { name: text(it, 'name'), description: or(it, 'description') ?? null } as Schema['RoleSpec'] }))),
    removal: 'Users lose what they had by it.',
    remove: (it) => data(api.DELETE('/v1/roles/{role}', { params: { path: { role: String(it.role_id) } } })),
  },
  {
    at: 'grants', name: 'Grants', one: 'grant', about: 'Privileges and roles that users and roles were given.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => `${String(it.privilege ?? it.role)} to ${String(it.to_user ?? it.to_role)}`, key: (it) => String(it.grant_id),
    columns: [{ name: 'to_user', title: 'To the user' }, { name: 'to_role', title: 'To the role' }, { name: 'privilege', title: 'Privilege' }, { name: 'role', title: 'Role' }],
    list: async (cursor, signal) => rows(await data(api.GET('/v1/grants', { params: page(cursor), signal }))),
    fields: [
      { name: 'to_user', label: 'To the user' }, { name: 'to_role', label: 'or to the role' },
      { name: 'privilege', label: 'Privilege', hint: 'such as CREATE JOB, VIEW JOB HISTORY, CONSUME ON QUEUE emails' }, { name: 'role', label: 'or all that a role has' },
    ],
    make: async (it) => void (await data(api.POST('/v1/grants', { body: Object.fromEntries(['to_user', 'to_role', 'privilege', 'role'].map((name) => [name, or(it, name) ?? null])) as Schema['GrantSpec'] }))),
    removal: 'It ends at once, also for open sessions.',
    remove: (it) => data(api.DELETE('/v1/grants/{grant_id}', { params: { path: { grant_id: String(it.grant_id) } } })),
  },
  {
    at: 'keys', name: 'Keys', one: 'key', about: 'API keys and browser sessions.',
    isSeen: () => true, mayChange: () => !session.identity?.read_only, title: (it) => String(it.label || it.key_id), key: (it) => String(it.key_id),
    columns: [
      { name: 'label', title: 'Label' }, { name: 'key_id', title: 'Id', form: 'code' }, { name: 'scopes', title: 'Only', form: 'list' }, { name: 'read_only', title: 'Read-only' },
      { name: 'session', title: 'Session' }, { name: 'created_at', title: 'Created', form: 'time' }, { name: 'expires_at', title: 'Expires', form: 'time' },
    ],
    list: async (cursor, signal) => {
      // Keys of another user, for administrators: the address names them.
      const user = router.query.get('user') ?? undefined;
      return rows(await data(api.GET('/v1/keys', { params: { query: { limit: 100, cursor, user } }, signal })));
    },
    fields: [{ name: 'label', label: 'Label', hint: 'what it is for', isNeeded: true }, { name: 'user', label: 'User', hint: 'empty for yourself' }, { name: 'read_only', label: 'It changes nothing', form: 'check' }],
    make: async (it) => {
      const made = await data(api.POST('/v1/keys', { body: { label: text(it, 'label'), user: or(it, 'user') ?? null, read_only: it.read_only === true } as Schema['KeySpec'] }));
      return (made as { key?: string }).key;
    },
    removal: 'Everything that came in with it ends at once.',
    remove: (it) => data(api.DELETE('/v1/keys/{key_id}', { params: { path: { key_id: String(it.key_id) } } })),
  },
  {
    at: 'secrets', name: 'Secrets', one: 'secret', about: 'Values that jobs use and no page shows.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => String(it.name), key: (it) => `${String(it.scope)} ${String(it.job_id ?? '')} ${String(it.name)}`,
    columns: [{ name: 'name', title: 'Name' }, { name: 'scope', title: 'Scope' }, { name: 'job_name', title: 'Job' }, { name: 'version', title: 'Version' }, { name: 'updated_by', title: 'Changed by' }, { name: 'updated_at', title: 'Changed', form: 'time' }],
    list: async (cursor, signal) => rows(await data(api.GET('/v1/secrets', { params: page(cursor), signal }))),
    fields: [{ name: 'name', label: 'Name', isNeeded: true }, { name: 'value', label: 'Value', form: 'password', hint: 'it is never shown again', isNeeded: true }],
    make: async (it) => void (await data(api.PUT('/v1/secrets/{secret}', { params: { path: { secret: text(it, 'name') } }, body: { value: String(it.value ?? '') } }))),
    removal: 'Runs that need it fail from now on.',
    remove: (it) => data(api.DELETE('/v1/secrets/{secret}', { params: { path: { secret: String(it.name) }, query: { scope: it.scope as never, job: (it.job_id ?? undefined) as never } } })),
  },
  {
    at: 'databases', name: 'Databases', one: 'database', about: 'Databases that SQL jobs work in.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => String(it.name), key: (it) => String(it.name),
    columns: [{ name: 'name', title: 'Name' }, { name: 'kind', title: 'Kind' }, { name: 'url', title: 'Address', form: 'code' }, { name: 'source', title: 'From' }, { name: 'description', title: 'Description' }],
    list: async (cursor, signal) => rows(await data(api.GET('/v1/databases', { params: page(cursor), signal }))),
    fields: [{ name: 'name', label: 'Name', isNeeded: true }, { name: 'url', label: 'Address', hint: 'postgres://user@host/database; a password belongs into a secret', isNeeded: true }, { name: 'description', label: 'Description' }],
    make: async (it) => void (await data(api.POST('/v1/databases', { body: { name: text(it, 'name'), url: text(it, 'url'), description: or(it, 'description') ?? null } as never }))),
    removal: 'Jobs that use it fail from now on.',
    remove: (it) => data(api.DELETE('/v1/databases/{name}', { params: { path: { name: String(it.name) } } })),
    test: async (it) => JSON.stringify(await data(api.POST('/v1/databases/{name}/test', { params: { path: { name: String(it.name) } } }))),
  },
  {
    at: 'channels', name: 'Alert channels', one: 'channel', about: 'Where alerts are delivered.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => String(it.name), key: (it) => String(it.channel_id),
    columns: [{ name: 'name', title: 'Name' }, { name: 'url', title: 'Address', form: 'code' }, { name: 'kinds', title: 'Kinds', form: 'list' }, { name: 'enabled', title: 'Enabled' }, { name: 'has_secret', title: 'Signed' }],
    list: async (cursor, signal) => rows(await data(api.GET('/v1/alert-channels', { params: page(cursor), signal }))),
    fields: [{ name: 'name', label: 'Name', isNeeded: true }, { name: 'url', label: 'Address', hint: 'https://…', isNeeded: true }],
    make: async (it) => void (await data(api.POST('/v1/alert-channels', { body: { name: text(it, 'name'), url: text(it, 'url') } as never }))),
    removal: 'No alert is delivered to it any more.',
    remove: (it) => data(api.DELETE('/v1/alert-channels/{name}', { params: { path: { name: String(it.name) } } })),
    test: async (it) => JSON.stringify(await data(api.POST('/v1/alert-channels/{name}/test', { params: { path: { name: String(it.name) } } }))),
  },
  {
    at: 'calendars', name: 'Calendars', one: 'calendar', about: 'Named days that schedules exclude or include.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => String(it.name), key: (it) => String(it.calendar_id),
    columns: [{ name: 'name', title: 'Name' }, { name: 'days', title: 'Days', form: 'list' }, { name: 'next_days', title: 'Next', form: 'list' }, { name: 'description', title: 'Description' }],
    list: async (cursor, signal) => rows(await data(api.GET('/v1/calendars', { params: page(cursor), signal }))),
    fields: [{ name: 'name', label: 'Name', isNeeded: true }, { name: 'days', label: 'Days', form: 'area', hint: 'one in a line: 2026-12-25, 12-24..12-26, SAT,SUN, EASTER+1', isNeeded: true }, { name: 'description', label: 'Description' }],
    make: async (it) => void (await data(api.POST('/v1/calendars', { body: { name: text(it, 'name'), days: text(it, 'days').split('\n').map((day) => day.trim()).filter(Boolean), description: or(it, 'description') ?? null } as never }))),
    removal: 'A calendar that a job uses cannot be removed.',
    remove: (it) => data(api.DELETE('/v1/calendars/{name}', { params: { path: { name: String(it.name) } } })),
  },
  {
    at: 'pools', name: 'Pools', one: 'pool', about: 'Limits for runs of several jobs together.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => String(it.name), key: (it) => String(it.pool_id),
    columns: [{ name: 'name', title: 'Name' }, { name: 'size', title: 'Size' }, { name: 'used', title: 'Used' }, { name: 'waiting', title: 'Waiting' }, { name: 'description', title: 'Description' }],
    list: async (_cursor, signal) => rows(await data(api.GET('/v1/pools', { signal }))),
    fields: [{ name: 'name', label: 'Name', isNeeded: true }, { name: 'size', label: 'Size', hint: 'the total weight of runs at the same time', isNeeded: true }, { name: 'description', label: 'Description' }],
    make: async (it) => void (await data(api.POST('/v1/pools', { body: { name: text(it, 'name'), size: Number(text(it, 'size')), description: or(it, 'description') ?? null } as never }))),
    removal: 'A pool that a job uses cannot be removed.',
    remove: (it) => data(api.DELETE('/v1/pools/{name}', { params: { path: { name: String(it.name) } } })),
  },
  {
    at: 'hooks', name: 'Hooks', one: 'hook', about: 'Addresses at which other programs trigger a job.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => String(it.name), key: (it) => String(it.hook_id),
    columns: [{ name: 'name', title: 'Name' }, { name: 'path', title: 'Address', form: 'code' }, { name: 'scheme', title: 'Checked by' }, { name: 'requests_per_second', title: 'Per second' }, { name: 'disabled', title: 'Disabled' }, { name: 'description', title: 'Description' }],
    list: async (_cursor, signal) => rows(await data(api.GET('/v1/hooks', { signal }))),
    fields: [{ name: 'name', label: 'Name', isNeeded: true }, { name: 'job', label: 'Job', isNeeded: true }, { name: 'scheme', label: 'Checked by', hint: 'STANDARD, GITHUB or TOKEN; empty for STANDARD' }, { name: 'description', label: 'Description' }],
    make: async (it) => (await data(api.POST('/v1/hooks', { body: { name: text(it, 'name'), job: text(it, 'job'), ...(or(it, 'scheme') ? { scheme: text(it, 'scheme') } : {}), description: or(it, 'description') ?? null } as never }))).secret ?? undefined,
    removal: 'Deliveries to its address are refused from now on.',
    remove: (it) => data(api.DELETE('/v1/hooks/{hook}', { params: { path: { hook: String(it.name) } } })),
  },
  {
    at: 'status-pages', name: 'Status pages', one: 'status page', about: 'Pages that show how jobs with chosen tags are doing. A public page needs no login and shows names of jobs and outcomes of runs, nothing else.',
    isSeen: admin, mayChange: mayAdmin, title: (it) => String(it.name), key: (it) => String(it.status_page_id),
    columns: [{ name: 'name', title: 'Name' }, { name: 'title', title: 'Title' }, { name: 'tags', title: 'Tags', form: 'list' }, { name: 'is_public', title: 'Public' }, { name: 'path', title: 'Address', form: 'code' }],
    list: async (cursor, signal) => rows(await data(api.GET('/v1/status-pages', { params: page(cursor), signal }))),
    fields: [{ name: 'name', label: 'Name', hint: 'the last part of its address', isNeeded: true }, { name: 'title', label: 'Title', isNeeded: true }, { name: 'tags', label: 'Tags', hint: 'with commas between them', isNeeded: true }, { name: 'is_public', label: 'Public: everyone who knows the address may read it', form: 'check' }],
    make: async (it) => void (await data(api.POST('/v1/status-pages', { body: { name: text(it, 'name'), title: text(it, 'title'), tags: text(it, 'tags').split(',').map((tag) => tag.trim()).filter(Boolean), is_public: it.is_public === true } }))),
    removal: 'Its address answers nothing any more.',
    remove: (it) => data(api.DELETE('/v1/status-pages/{name}', { params: { path: { name: String(it.name) } } })),
  },
  {
    at: 'settings', name: 'Settings', one: 'setting', about: 'The settings of this server and where each comes from. Change them in the settings file, the environment or on the command line.',
    isSeen: () => session.has('ADMINISTER CLUSTER'), mayChange: () => false, title: (it) => String(it.name), key: (it) => String(it.name),
    columns: [{ name: 'name', title: 'Name', form: 'code' }, { name: 'value', title: 'Value', form: 'code' }, { name: 'origin', title: 'From' }, { name: 'meaning', title: 'Meaning' }],
    list: async (_cursor, signal) => rows((await data(api.GET('/v1/configuration', { signal }))) as unknown as { data: Row[] }),
  },
];
