CREATE TABLE acknowledgements (
    run_id BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    node_id BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (run_id, epoch, node_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE alerts (
    id BLOB PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    tenant_id BLOB NOT NULL,
    job_id BLOB NOT NULL,
    run_id BLOB,
    text TEXT NOT NULL,
    -- Whether the job has completed since.
    settled INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX alerts_at ON alerts (at);

CREATE INDEX alerts_unsettled ON alerts (job_id) WHERE NOT settled;

CREATE TABLE artifacts (
    tenant_id BLOB NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    digest TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    unpacked_bytes INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    -- A JSON object of texts.
    labels TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    deleted_at INTEGER,
    PRIMARY KEY (tenant_id, name, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX artifacts_digest ON artifacts (digest);

CREATE TABLE attempts (
    run_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    job_id BLOB NOT NULL,
    node_id BLOB NOT NULL,
    fence INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    attempt_end TEXT NOT NULL,
    message TEXT,
    error TEXT,
    -- What was in force and what was used while it ran, as JSON.
    details TEXT,
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    place INTEGER PRIMARY KEY,
    tenant_id BLOB NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    kind TEXT NOT NULL,
    job_id BLOB,
    run_id BLOB,
    node_id BLOB,
    outcome TEXT NOT NULL,
    details TEXT NOT NULL,
    -- Runs that ended together, or that a user asked for together.
    runs BLOB NOT NULL,
    number INTEGER,
    hash BLOB
) STRICT;

CREATE UNIQUE INDEX audit_chain ON audit (tenant_id, number) WHERE number IS NOT NULL;

CREATE INDEX audit_job ON audit (job_id, place) WHERE kind IN ('JOB_CREATED', 'JOB_MODIFIED', 'JOB_DELETED');

CREATE INDEX audit_run ON audit (run_id) WHERE run_id IS NOT NULL;

CREATE INDEX audit_tenant ON audit (tenant_id, place);

CREATE INDEX audit_unsealed ON audit (place) WHERE number IS NULL;

CREATE TABLE audit_chains (
    tenant_id BLOB PRIMARY KEY,
    anchor_number INTEGER NOT NULL,
    anchor_hash BLOB NOT NULL,
    -- When the last row that was forgotten was written.
    anchor_at INTEGER,
    head_number INTEGER NOT NULL,
    head_hash BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE awards (
    id BLOB PRIMARY KEY,
    tenant_id BLOB NOT NULL,
    to_id BLOB NOT NULL,
    role_id BLOB,
    privilege TEXT,
    -- The queue whose messages it is about: it goes with the queue.
    queue_id BLOB,
    CHECK ((role_id IS NULL) <> (privilege IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX awards_queue ON awards (queue_id) WHERE queue_id IS NOT NULL;

CREATE INDEX awards_role ON awards (role_id) WHERE role_id IS NOT NULL;

CREATE INDEX awards_tenant ON awards (tenant_id, id);

CREATE INDEX awards_to ON awards (to_id);

CREATE TABLE claims (
    first INTEGER PRIMARY KEY,
    node_id BLOB NOT NULL,
    grants BLOB NOT NULL
) STRICT;

CREATE TABLE dag_runs (
    run_id BLOB PRIMARY KEY,
    job_id BLOB NOT NULL,
    tenant_id BLOB NOT NULL,
    -- The version of the DAG that the run follows.
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    -- 1 running, 2 held, 3 stopping, 4 cancelling.
    control INTEGER NOT NULL,
    -- Whether no step is left.
    is_over INTEGER NOT NULL,
    rerun_of BLOB,
    -- Steps that run although their rule would skip them, as a JSON list.
    forced TEXT NOT NULL,
    scheduled_for INTEGER NOT NULL,
    parameters TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX dag_runs_job ON dag_runs (job_id, run_id);

CREATE TABLE dag_steps (
    dag_run_id BLOB NOT NULL,
    step INTEGER NOT NULL,
    -- 0 for the step as a whole, and then its items.
    item INTEGER NOT NULL,
    -- None while it is open.
    outcome INTEGER,
    reason TEXT,
    reason_text TEXT,
    run_id BLOB,
    -- Of a fan-out: how many items it has.
    items INTEGER,
    -- The step whose end decided it.
    by_step INTEGER,
    by_item INTEGER,
    decided_at INTEGER NOT NULL,
    ended_at INTEGER,
    -- Whether it was adopted from the run that this one repeats.
    adopted INTEGER NOT NULL,
    -- Whether its run is one of another job, which is found by its id only here.
    called INTEGER NOT NULL,
    PRIMARY KEY (dag_run_id, item, step)
) STRICT, WITHOUT ROWID;

CREATE INDEX dag_steps_called ON dag_steps (run_id) WHERE called;

CREATE TABLE dead_letter_notices (
    tenant_id BLOB PRIMARY KEY,
    told_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
    channel TEXT NOT NULL,
    alert_id BLOB NOT NULL,
    tries INTEGER NOT NULL,
    -- When the next try is due; none when it arrived or was given up.
    next_try_at INTEGER,
    delivered_at INTEGER,
    error TEXT,
    -- When it was first and last tried.
    begun_at INTEGER NOT NULL DEFAULT 0,
    tried_at INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (channel, alert_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_begun ON deliveries (channel, begun_at, alert_id);

CREATE TABLE ends (
    seq INTEGER PRIMARY KEY,
    outcome INTEGER NOT NULL,
    reason TEXT,
    reason_text TEXT,
    dead_letter INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    -- The last attempt, if one was made.
    number INTEGER,
    attempt_end TEXT,
    node_id BLOB,
    fence INTEGER,
    started_at INTEGER,
    message TEXT,
    error TEXT,
    result TEXT,
    rows_affected INTEGER,
    details TEXT,
    -- Of runs that did not complete: their tenant and their id.
    tenant_id BLOB,
    id BLOB,
    -- Of runs that began more than a minute after their time, or never: their job. They have their id as well.
    job_id BLOB,
    -- The version of the job that the last attempt followed, if that is not the one that planned the run.
    job_version INTEGER
) STRICT;

CREATE INDEX ends_dead ON ends (tenant_id, id) WHERE dead_letter = 1;

CREATE INDEX ends_finished ON ends (finished_at);

CREATE INDEX ends_late ON ends (
    job_id,
    coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807),
    id
) WHERE job_id IS NOT NULL;

CREATE INDEX ends_tenant ON ends (tenant_id, outcome, id) WHERE outcome <> 1;

CREATE TABLE identities (
    id BLOB PRIMARY KEY,
    kind INTEGER NOT NULL,
    -- A tenant belongs to the cluster, which is a zero id.
    tenant_id BLOB NOT NULL,
    name TEXT NOT NULL,
    -- The user of a key.
    owner_id BLOB,
    expires_at INTEGER,
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX identities_expires ON identities (expires_at) WHERE expires_at IS NOT NULL;

CREATE UNIQUE INDEX identities_name ON identities (tenant_id, kind, name);

CREATE INDEX identities_owner ON identities (owner_id) WHERE owner_id IS NOT NULL;

CREATE TABLE identity_generation (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation INTEGER NOT NULL,
    -- What the salts of the users' passwords and keys are made of at the SQL interface; drawn at the first start
    -- that needs it.
    salt BLOB
) STRICT;

CREATE TABLE job_tags (
    tenant_id BLOB NOT NULL,
    tag TEXT NOT NULL,
    name TEXT NOT NULL,
    job_id BLOB NOT NULL,
    PRIMARY KEY (tenant_id, tag, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_tags_job ON job_tags (job_id);

CREATE TABLE job_versions (
    job_id BLOB NOT NULL,
    version INTEGER NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,
    definition TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    changed TEXT NOT NULL,
    PRIMARY KEY (job_id, version)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_versions_name ON job_versions (name, job_id);

CREATE TABLE jobs (
    id BLOB NOT NULL UNIQUE,
    tenant_id BLOB NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    after_dependencies INTEGER NOT NULL,
    own_retention INTEGER NOT NULL,
    definition TEXT NOT NULL,
    next_run INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    owner_id BLOB NOT NULL DEFAULT x'00000000000000000000000000000002',
    -- The latest fence when the job was changed.
    changed_fence INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX jobs_deleted ON jobs (id) WHERE state = 'DELETED';

CREATE INDEX jobs_due ON jobs (next_run) WHERE state = 'ENABLED' AND next_run IS NOT NULL;

CREATE UNIQUE INDEX jobs_name ON jobs (tenant_id, name) WHERE state <> 'DELETED';

CREATE INDEX jobs_own_retention ON jobs (id) WHERE own_retention;

CREATE INDEX jobs_updated ON jobs (updated_at, id);

CREATE TABLE last_ends (
    job_id BLOB PRIMARY KEY,
    outcome INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    succeeded_at INTEGER,
    -- The latest fence at the last end.
    fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE live (
    job_id BLOB NOT NULL,
    order_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (job_id, order_at, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE message_keys (
    queue_id BLOB NOT NULL,
    key TEXT NOT NULL,
    run_id BLOB NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (queue_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX message_keys_until ON message_keys (until);

CREATE TABLE messages (
    seq INTEGER PRIMARY KEY,
    run_id BLOB NOT NULL UNIQUE,
    queue_id BLOB NOT NULL,
    workspace TEXT NOT NULL,
    -- Nine minus the priority, so that the most urgent come first.
    urgency INTEGER NOT NULL,
    -- 0 ready, 1 delayed, 2 leased, 3 behind an earlier message with its ordering key.
    state INTEGER NOT NULL,
    -- When it becomes ready, or when its lease ends.
    at INTEGER NOT NULL,
    order_at INTEGER NOT NULL,
    ordering_key TEXT,
    -- It ends if no worker has leased it by then.
    expires_at INTEGER,
    -- Of a leased one: the fencing token, the node that leased it for a worker, and when.
    fence INTEGER,
    node_id BLOB,
    leased_at INTEGER,
    -- When its time limit ends, once its worker has begun.
    deadline INTEGER,
    -- What its worker said last about how far it is.
    progress TEXT,
    -- The token of the last lease, if its worker gave the message back untouched: that report may come again.
    released_fence INTEGER
) STRICT;

CREATE INDEX messages_delayed ON messages (queue_id, at) WHERE state = 1;

CREATE INDEX messages_expiry ON messages (expires_at) WHERE expires_at IS NOT NULL;

CREATE INDEX messages_lease_end ON messages (at) WHERE state = 2;

CREATE INDEX messages_leased ON messages (queue_id, workspace) WHERE state = 2;

CREATE INDEX messages_ordering ON messages (queue_id, ordering_key) WHERE ordering_key IS NOT NULL;

CREATE INDEX messages_queue ON messages (queue_id, state);

CREATE INDEX messages_ready ON messages (queue_id, workspace, urgency, at) WHERE state = 0;

CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    fence INTEGER NOT NULL,
    clock INTEGER NOT NULL,
    -- The latest fencing token.
    token INTEGER NOT NULL,
    -- The latest order that a row was given.
    used_order INTEGER NOT NULL
) STRICT;

CREATE TABLE node_starts (
    node_id BLOB PRIMARY KEY,
    starts BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE nodes (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    -- What a node reports about itself, and when it last renewed its lease.
    address TEXT,
    version TEXT NOT NULL DEFAULT '',
    roles TEXT NOT NULL DEFAULT '[]',
    joined_at INTEGER NOT NULL DEFAULT 0,
    renewed_at INTEGER NOT NULL DEFAULT 0,
    -- It stops and takes nothing new since then.
    retired_at INTEGER,
    labels TEXT NOT NULL DEFAULT '[]',
    capacity INTEGER NOT NULL DEFAULT 0,
    http_capacity INTEGER NOT NULL DEFAULT 0,
    settings_hash TEXT NOT NULL DEFAULT '',
    -- An administrator asked it to take nothing new.
    draining INTEGER NOT NULL DEFAULT 0,
    -- Dead, and the last of its runs was handed on.
    cleared INTEGER NOT NULL DEFAULT 0,
    -- How far the clock of the store is ahead of its own, as it last said.
    clock_offset_us INTEGER NOT NULL DEFAULT 0,
    -- It left, was removed or came back as another one. A node that fell silent stays listed until then.
    gone_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE objects (
    id BLOB PRIMARY KEY,
    tenant_id BLOB NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    -- What it says, as JSON.
    body TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX objects_kind ON objects (kind, id);

CREATE UNIQUE INDEX objects_name ON objects (tenant_id, kind, name);

CREATE TABLE outages (
    since INTEGER PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT;

CREATE TABLE outputs (
    run_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    frames BLOB NOT NULL,
    PRIMARY KEY (run_id, number)
) STRICT;

CREATE TABLE parts (
    parent_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    run_id BLOB NOT NULL UNIQUE,
    -- The shard of the part; empty when it has none.
    shard TEXT NOT NULL,
    PRIMARY KEY (parent_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE places (
    id INTEGER PRIMARY KEY,
    words TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE pool_runs (
    run_id BLOB PRIMARY KEY,
    tenant_id BLOB NOT NULL,
    pool TEXT NOT NULL,
    job_id BLOB NOT NULL,
    weight INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    turn INTEGER,
    since INTEGER NOT NULL,
    called_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX pool_runs_line ON pool_runs (tenant_id, pool) WHERE turn IS NULL;

CREATE INDEX pool_runs_pool ON pool_runs (tenant_id, pool);

CREATE TABLE queue (
    tenant_id BLOB NOT NULL,
    lane INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, lane, due_at, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE queue_cursors (
    queue_id BLOB PRIMARY KEY,
    workspace TEXT NOT NULL,
    served INTEGER NOT NULL,
    tokens REAL NOT NULL,
    refilled_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE quotas (
    tenant_id BLOB PRIMARY KEY,
    max_jobs INTEGER,
    max_concurrent INTEGER,
    -- Its share when tenants compete for slots.
    weight INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    tenant_id BLOB NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    begun_at INTEGER NOT NULL,
    -- None while the first request is being answered.
    status INTEGER,
    head TEXT,
    body BLOB,
    PRIMARY KEY (tenant_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_begun ON requests (begun_at);

CREATE TABLE roles (
    name TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    node_id BLOB,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    -- Of the same counter as fences: never used again, not even when the run has vanished.
    seq INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    job_id BLOB NOT NULL,
    tenant_id BLOB NOT NULL,
    job_version INTEGER NOT NULL,
    scheduled_for INTEGER NOT NULL,
    shard TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    -- When it first could have started, which retries do not move: the order in which runs of a job take turns.
    order_at INTEGER NOT NULL,
    -- Twenty times the place that it asks for, 0 for none; ten times the kind of slot that it takes (0 process, 1 HTTP);
    -- and its priority.
    lane INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    coalesced INTEGER NOT NULL,
    ignore_dependencies INTEGER NOT NULL,
    parameters TEXT,
    -- What the run has come to while it goes on; its end has numbers of its own.
    attempts INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    wait INTEGER NOT NULL,
    wait_until INTEGER,
    cancel_code TEXT,
    cancel_text TEXT,
    -- Of times without a run: the last of them, and how many they are.
    scheduled_last INTEGER,
    count INTEGER,
    -- The turn after the one whose start was written down: the run began under its grant exactly if this is turn + 1.
    begun INTEGER,
    -- The user who asked for it; none for what the schedule or another run asked for.
    requested_by BLOB,
    -- When this row was written: the run was queued.
    created_at INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX runs_id ON runs (id);

CREATE INDEX runs_job ON runs (job_id, id);

CREATE INDEX runs_placed ON runs (lane) WHERE lane >= 20;

CREATE INDEX runs_quorum ON runs (id) WHERE wait = 3;

CREATE INDEX runs_tenant ON runs (tenant_id, id);

CREATE INDEX runs_waiting ON runs (job_id, wait, order_at, id) WHERE wait <> 0;

CREATE TABLE secrets (
    tenant_id BLOB NOT NULL,
    job_id BLOB NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    -- The master key, and the data key under it.
    key_id TEXT NOT NULL,
    data_key BLOB NOT NULL,
    -- The value, under the data key.
    value BLOB NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    PRIMARY KEY (tenant_id, job_id, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX secrets_key ON secrets (key_id, tenant_id, job_id, name);

CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE shard_owners (
    shard_id BLOB PRIMARY KEY,
    -- None while no node may own it.
    node_id BLOB,
    fence INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX shard_owners_node ON shard_owners (node_id) WHERE node_id IS NOT NULL;

CREATE TABLE tallies (
    tenant_id BLOB NOT NULL,
    job_id BLOB NOT NULL,
    hour INTEGER NOT NULL,
    -- What is counted, and in which class of it.
    measure INTEGER NOT NULL,
    class INTEGER NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, job_id, hour, measure, class)
) STRICT, WITHOUT ROWID;

CREATE INDEX tallies_hour ON tallies (hour);

CREATE TABLE tally_cursor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    finished_at INTEGER NOT NULL,
    id BLOB NOT NULL
) STRICT;

CREATE TABLE upstream (
    job_id BLOB NOT NULL,
    depends_on BLOB NOT NULL,
    PRIMARY KEY (job_id, depends_on)
) STRICT, WITHOUT ROWID;

CREATE INDEX upstream_depends_on ON upstream (depends_on);
