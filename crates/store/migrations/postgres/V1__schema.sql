-- Times are microseconds since the epoch, UTC. Nothing here has a default that reads a clock or draws a number: every
-- statement hands in every value.

-- The store's clock. It stands still within a statement.
CREATE FUNCTION clock() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint $$;

-- One row. A transaction that changes which node holds or waits for what locks it until commit; it also numbers the
-- grants.
CREATE TABLE gate (
    one smallint PRIMARY KEY CHECK (one = 1),
    fence bigint NOT NULL,
    -- Where the last large claim ended, and how many in a row have begun where the one before ended. The transaction that
    -- has locked the row may read and write this.
    front_tenant uuid,
    front_lane smallint,
    front_due_at bigint,
    front_looks integer NOT NULL DEFAULT 0,
    -- The fence at the last vacuum.
    vacuum_fence bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO gate (one, fence) VALUES (1, 0);

CREATE TABLE nodes (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    joined_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    buried boolean NOT NULL,
    -- What a node reports about itself, and when it last renewed its lease.
    address text,
    version text NOT NULL DEFAULT '',
    roles text[] NOT NULL DEFAULT '{}',
    renewed_at bigint NOT NULL DEFAULT 0,
    -- It stops and takes nothing new since then.
    retired_at bigint,
    labels text[] NOT NULL DEFAULT '{}',
    capacity integer NOT NULL DEFAULT 0,
    http_capacity integer NOT NULL DEFAULT 0,
    settings_hash text NOT NULL DEFAULT '',
    -- An administrator asked it to take nothing new.
    draining boolean NOT NULL DEFAULT false,
    -- Buried, and the last of its runs was handed on.
    cleared boolean NOT NULL DEFAULT false,
    -- It left, was removed or came back as another one. A node that fell silent stays listed until then.
    gone_at bigint
) WITH (fillfactor = 50);

-- What each node executes and since when, as of its last renewal. An entry of another turn than the run has is over.
CREATE TABLE node_starts (
    node_id uuid PRIMARY KEY,
    run_ids uuid[] NOT NULL,
    turns integer[] NOT NULL,
    started_at bigint[] NOT NULL
);

CREATE TABLE jobs (
    id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    name text NOT NULL COLLATE "C",
    version integer NOT NULL,
    state text NOT NULL,
    after_dependencies boolean NOT NULL,
    own_retention boolean NOT NULL,
    definition text NOT NULL,
    next_run bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    -- The last fence that had been handed out when the job was last changed.
    changed_fence bigint,
    owner_id uuid NOT NULL
);
CREATE UNIQUE INDEX jobs_name ON jobs (tenant_id, name) WHERE state <> 'DELETED';
CREATE INDEX jobs_own_retention ON jobs (id) WHERE own_retention;
CREATE INDEX jobs_due ON jobs (next_run) WHERE state = 'ENABLED' AND next_run IS NOT NULL;
-- Changed jobs in the order of their changes, for clients that follow them.
CREATE INDEX jobs_updated ON jobs (updated_at, id);
-- What is left of deleted jobs, until their history is gone.
CREATE INDEX jobs_deleted ON jobs (id) WHERE state = 'DELETED';

-- Every version of a job's definition: who changed which fields (a JSON list, empty for the first version), and when.
CREATE TABLE job_versions (
    job_id uuid NOT NULL,
    version integer NOT NULL,
    name text NOT NULL COLLATE "C",
    state text NOT NULL,
    definition text NOT NULL,
    changed_at bigint NOT NULL,
    changed_by text NOT NULL,
    changed text NOT NULL,
    PRIMARY KEY (job_id, version)
);
-- Jobs by the names that they have or had.
CREATE INDEX job_versions_name ON job_versions (name, job_id);

-- The tags of jobs that are not deleted, by name of the job.
CREATE TABLE job_tags (
    tenant_id uuid NOT NULL,
    tag text NOT NULL COLLATE "C",
    name text NOT NULL COLLATE "C",
    job_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, tag, name)
);
CREATE INDEX job_tags_job ON job_tags (job_id);

CREATE TABLE upstream (
    job_id uuid NOT NULL,
    depends_on uuid NOT NULL,
    PRIMARY KEY (job_id, depends_on)
);
CREATE INDEX upstream_depends_on ON upstream (depends_on);

-- What the runs of a job came to last. Kept only for jobs that others depend on.
CREATE TABLE last_ends (
    job_id uuid PRIMARY KEY,
    outcome smallint NOT NULL,
    finished_at bigint NOT NULL,
    succeeded_at bigint,
    -- Where the gate stood when this was written: a holder of a fence up to that may have missed it.
    fence bigint NOT NULL
) WITH (fillfactor = 50);

-- Runs that can still change.
CREATE TABLE runs (
    id uuid PRIMARY KEY,
    job_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    scheduled_for bigint NOT NULL,
    due_at bigint NOT NULL,
    -- When it first could have started, which retries do not move: the order in which runs of a job take turns.
    order_at bigint NOT NULL,
    wait_until bigint,
    job_version integer NOT NULL,
    coalesced integer NOT NULL,
    attempts integer NOT NULL,
    lost integer NOT NULL,
    turn integer NOT NULL,
    -- Ten times the kind of slot that it takes (0 process, 1 HTTP), and its priority.
    lane smallint NOT NULL,
    origin smallint NOT NULL,
    -- 0 to 4, see domain::run::Wait; 5 is a message, which workers pull.
    wait smallint NOT NULL,
    ignore_dependencies boolean NOT NULL,
    shard text NOT NULL,
    parameters text,
    -- The turn after the one whose start was written down: the run began under its grant exactly if this is turn + 1.
    begun integer,
    cancel_code text,
    cancel_text text,
    -- What a run asks of its node; none when any will do. Those that ask for something lie in lanes of their own.
    place text[],
    -- The user who asked for it; none for what the schedule or another run asked for.
    requested_by uuid,
    -- When this row was written: the run was queued.
    created_at bigint NOT NULL
) WITH (
    vacuum_truncate = off, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_analyze_threshold = 100000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX runs_lane ON runs (tenant_id, lane, due_at) WHERE wait = 0 AND place IS NULL;
CREATE INDEX runs_place ON runs (place, tenant_id, lane, due_at) WHERE wait = 0 AND place IS NOT NULL;
-- No index but the primary key holds the id. The planner knows nothing of a table that is empty whenever a vacuum looks,
-- and would as soon search the whole of another index for an id.
CREATE INDEX runs_job ON runs (job_id, order_at);
CREATE INDEX runs_waiting ON runs (job_id, wait, order_at) WHERE wait <> 0;
CREATE INDEX runs_wait_until ON runs (wait_until) WHERE wait_until IS NOT NULL;
CREATE INDEX runs_cancelled ON runs (id) WHERE cancel_code IS NOT NULL;
CREATE INDEX runs_quorum ON runs (id) WHERE wait = 3;

-- Which node holds what: a row for each batch that was claimed, so that a claim costs one write. Run k of a batch, from
-- 1, has the fence id + k. A run is held if its id and turn are here.
CREATE TABLE claims (
    id bigint PRIMARY KEY,
    node_id uuid NOT NULL,
    claimed_at bigint NOT NULL,
    run_ids uuid[] NOT NULL,
    turns integer[] NOT NULL,
    -- Whether the claim lists all that was granted with it: not when ticks were taken out of it again, so that the holder
    -- of the rest has to look.
    whole boolean NOT NULL DEFAULT true,
    -- No run of the claim is due later: a search for such runs need not look into it.
    due_until bigint NOT NULL DEFAULT 9223372036854775807
) WITH (
    vacuum_truncate = off, toast.vacuum_truncate = off, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 10000, toast.autovacuum_vacuum_scale_factor = 0
);

-- Ids do not compress, so it is not tried.
ALTER TABLE claims ALTER COLUMN run_ids SET STORAGE EXTERNAL;

-- What only messages have: runs of queues, which workers pull and no node claims (wait = 5). A row goes when its run ends.
CREATE TABLE messages (
    run_id uuid PRIMARY KEY,
    queue_id uuid NOT NULL,
    -- When it becomes ready, or when its lease ends.
    at bigint NOT NULL,
    order_at bigint NOT NULL,
    -- It ends if no worker has leased it by then.
    expires_at bigint,
    -- Of a leased one: the fencing token, when it was leased, and the node that leased it for a worker.
    fence bigint,
    leased_at bigint,
    node_id uuid,
    -- Nine minus the priority, so that the most urgent come first.
    urgency smallint NOT NULL,
    -- 0 ready, 1 delayed, 2 leased, 3 behind an earlier message with its ordering key.
    state smallint NOT NULL,
    workspace text NOT NULL COLLATE "C",
    ordering_key text COLLATE "C"
) WITH (
    vacuum_truncate = off, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_analyze_threshold = 100000, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX messages_ready ON messages (queue_id, workspace, urgency, at) WHERE state = 0;
CREATE INDEX messages_delayed ON messages (queue_id, at) WHERE state = 1;
CREATE INDEX messages_leased ON messages (queue_id, workspace) WHERE state = 2;
CREATE INDEX messages_lease_end ON messages (at) WHERE state = 2;
CREATE INDEX messages_ordering ON messages (queue_id, ordering_key, order_at) WHERE ordering_key IS NOT NULL;
CREATE INDEX messages_expiry ON messages (expires_at) WHERE expires_at IS NOT NULL;

-- Deduplication keys. One counts until its time is over and its message has ended.
CREATE TABLE message_keys (
    queue_id uuid NOT NULL,
    key text NOT NULL COLLATE "C",
    run_id uuid NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (queue_id, key)
);
CREATE INDEX message_keys_until ON message_keys (until);

-- The workspace of a queue that was served last, and the tokens of its rate limit.
CREATE TABLE queue_cursors (
    queue_id uuid PRIMARY KEY,
    workspace text NOT NULL COLLATE "C",
    tokens double precision NOT NULL,
    refilled_at bigint NOT NULL
) WITH (fillfactor = 50);

-- Runs that ended, and times that ended without a run: one row for each, for ever the same. Partitioned by id, which begins
-- with the nominal time, so that the primary key holds for all partitions (docs/decisions/028-history-partitions.md).
CREATE TABLE history (
    id uuid PRIMARY KEY,
    job_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    node_id uuid,
    scheduled_for bigint NOT NULL,
    due_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    started_at bigint,
    fence bigint,
    rows_affected bigint,
    -- The last of the times that a row stands for, when it stands for several, and how many.
    scheduled_last bigint,
    count bigint,
    job_version integer NOT NULL,
    coalesced integer NOT NULL,
    attempts integer NOT NULL,
    lost integer NOT NULL,
    -- The last attempt, if one was made.
    number integer,
    attempt_end smallint,
    origin smallint NOT NULL,
    outcome smallint NOT NULL,
    dead_letter boolean NOT NULL,
    shard text NOT NULL,
    parameters text,
    reason text,
    reason_text text,
    message text,
    error text,
    result text,
    -- What was in force and what was used while the last attempt ran, as JSON.
    details text,
    -- The user who asked for it; none for what the schedule or another run asked for.
    requested_by uuid,
    -- When it was queued, or when a row for times without a run was written.
    created_at bigint NOT NULL
) PARTITION BY RANGE (id);
CREATE INDEX history_job ON history (job_id, id);
CREATE INDEX history_dead ON history (tenant_id, id) WHERE dead_letter;
-- Ended runs of a tenant, newest first: all of them, or those with some outcomes.
CREATE INDEX history_tenant ON history (tenant_id, outcome, id, origin);
-- Ended runs in the order in which they ended: for the tally and for clients that follow them.
CREATE INDEX history_finished ON history (finished_at, id);
-- Ended runs that began more than a minute after their time, or never, by when they began: those whose starts are not in
-- the order of their ids. Any other run pays for this index with nothing but the comparison. One that ended while it
-- waited for another attempt stands where it ended; one that never began comes last. No other index begins like this one,
-- so that no planner takes another one for the same question.
CREATE INDEX history_late ON history (
    uuid_send(job_id),
    (coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807)),
    id
) WHERE (started_at - scheduled_for > 60000000) IS NOT FALSE;

-- The partitions of history: the table history_<number> has the ids from first up to but without until. They leave nothing
-- out, so every end has a place. The store makes them ahead of time and drops them when they are old.
CREATE TABLE history_ranges (
    number integer PRIMARY KEY,
    first uuid NOT NULL UNIQUE,
    until uuid NOT NULL,
    -- Rows go one by one: it has what was kept longer than the rest of its partition, or came before all partitions.
    row_by_row boolean NOT NULL
);
CREATE TABLE history_0 PARTITION OF history FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
INSERT INTO history_ranges (number, first, until, row_by_row)
VALUES (0, '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff', true);

-- Attempts that were followed by another one.
CREATE TABLE attempts (
    run_id uuid NOT NULL,
    number integer NOT NULL,
    fence bigint NOT NULL,
    node_id uuid NOT NULL,
    started_at bigint NOT NULL,
    finished_at bigint NOT NULL,
    attempt_end smallint NOT NULL,
    message text,
    error text,
    details text,
    PRIMARY KEY (run_id, number)
);

-- Short outputs of attempts, compressed by the agent. Longer ones are in files of the node that made them.
CREATE TABLE outputs (
    run_id uuid NOT NULL,
    number integer NOT NULL,
    frames bytea NOT NULL,
    PRIMARY KEY (run_id, number)
);

ALTER TABLE outputs ALTER COLUMN frames SET STORAGE EXTERNAL;

CREATE TABLE alerts (
    id uuid PRIMARY KEY,
    at bigint NOT NULL,
    kind text NOT NULL,
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    run_id uuid,
    text text NOT NULL,
    -- Whether the job has completed since.
    settled boolean NOT NULL
);
CREATE INDEX alerts_at ON alerts (at);
CREATE INDEX alerts_unsettled ON alerts (job_id) WHERE NOT settled;

-- What each channel made of an alert.
CREATE TABLE deliveries (
    channel text NOT NULL,
    alert_id uuid NOT NULL,
    tries integer NOT NULL,
    -- When the next try is due; none when it arrived or was given up.
    next_try_at bigint,
    delivered_at bigint,
    error text,
    -- When it was first and last tried.
    begun_at bigint NOT NULL DEFAULT 0,
    tried_at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (channel, alert_id)
);
CREATE INDEX deliveries_begun ON deliveries (channel, begun_at, alert_id);

-- Requests that their callers may send again, and their answers.
CREATE TABLE requests (
    tenant_id uuid NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    begun_at bigint NOT NULL,
    -- None while the first request is being answered.
    status smallint,
    head text,
    body bytea,
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX requests_begun ON requests (begun_at);

-- Tenants that were told of their dead letters.
CREATE TABLE dead_letter_notices (tenant_id uuid PRIMARY KEY, told_at bigint NOT NULL);

-- How runs ended, by hour; a row without a job (a zero id) is about all jobs of the tenant.
CREATE TABLE tallies (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    hour bigint NOT NULL,
    -- What is counted, and in which class of it.
    measure smallint NOT NULL,
    class smallint NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (tenant_id, job_id, hour, measure, class)
) WITH (fillfactor = 70);
CREATE INDEX tallies_hour ON tallies (hour);

-- The last ended run that was tallied. One row.
CREATE TABLE tally_cursor (
    one smallint PRIMARY KEY CHECK (one = 1),
    finished_at bigint NOT NULL,
    id uuid NOT NULL
);
INSERT INTO tally_cursor (one, finished_at, id) VALUES (1, 0, '00000000-0000-0000-0000-000000000000');

-- What the whole cluster agrees on.
CREATE TABLE settings (
    name text COLLATE "C" PRIMARY KEY,
    value text NOT NULL,
    version integer NOT NULL,
    changed_at bigint NOT NULL
);

-- Things with a name: databases of SQL jobs, channels for alerts.
CREATE TABLE objects (
    id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    name text NOT NULL COLLATE "C",
    -- What it says, as JSON.
    body text NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL
);
CREATE UNIQUE INDEX objects_name ON objects (tenant_id, kind, name);
CREATE INDEX objects_kind ON objects (kind, id);

-- Tenants (1), users (2), roles (3) and keys (4).
CREATE TABLE identities (
    id uuid PRIMARY KEY,
    kind smallint NOT NULL,
    -- A tenant belongs to the cluster, which is a zero id.
    tenant_id uuid NOT NULL,
    name text NOT NULL COLLATE "C",
    -- The user of a key.
    owner_id uuid,
    expires_at bigint,
    body text NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE UNIQUE INDEX identities_name ON identities (tenant_id, kind, name);
CREATE INDEX identities_owner ON identities (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX identities_expires ON identities (expires_at) WHERE expires_at IS NOT NULL;

-- What users and roles were given: a privilege, or all that a role has.
CREATE TABLE awards (
    id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    to_id uuid NOT NULL,
    role_id uuid,
    privilege text,
    CHECK ((role_id IS NULL) <> (privilege IS NULL))
);
CREATE INDEX awards_tenant ON awards (tenant_id, id);
CREATE INDEX awards_to ON awards (to_id);
CREATE INDEX awards_role ON awards (role_id) WHERE role_id IS NOT NULL;

-- What the store itself must know of a tenant.
CREATE TABLE quotas (
    tenant_id uuid PRIMARY KEY,
    max_jobs bigint,
    max_concurrent bigint,
    -- Its share when tenants compete for slots.
    weight integer NOT NULL
);

-- Grows with every change of identity: a cache looks here whether it still holds. A transaction that changes identity
-- locks the row until commit, so that changes come one after the other.
CREATE TABLE identity_generation (
    one smallint PRIMARY KEY CHECK (one = 1),
    generation bigint NOT NULL,
    -- What the salts of the users' passwords and keys are made of at the SQL door; drawn at the first start
    -- that needs it.
    salt bytea
);
INSERT INTO identity_generation (one, generation) VALUES (1, 0);

-- Secrets, sealed. A tenant of zeros stands for the whole cluster, a job of zeros for all jobs of the tenant.
CREATE TABLE secrets (
    tenant_id uuid NOT NULL,
    job_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    version integer NOT NULL,
    -- The master key, and the data key under it.
    key_id text COLLATE "C" NOT NULL,
    data_key bytea NOT NULL,
    -- The value, under the data key.
    value bytea NOT NULL,
    changed_at bigint NOT NULL,
    changed_by text NOT NULL,
    PRIMARY KEY (tenant_id, job_id, name)
);
CREATE INDEX secrets_key ON secrets (key_id, tenant_id, job_id, name);

-- Who did what. A row is written with what it records, and sealed a moment later: then it has a number and a hash.
CREATE TABLE audit (
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id uuid NOT NULL,
    at bigint NOT NULL,
    actor text NOT NULL,
    kind text COLLATE "C" NOT NULL,
    job_id uuid,
    run_id uuid,
    node_id uuid,
    outcome text NOT NULL,
    details text NOT NULL,
    -- Runs that ended together, or that a user asked for together.
    runs bytea NOT NULL,
    number bigint,
    hash bytea
) WITH (fillfactor = 80);

-- The list of what ended together is mostly ids, and ids do not get smaller: trying to compress it took 7 % of the time
-- in which runs end.
ALTER TABLE audit ALTER COLUMN runs SET STORAGE EXTERNAL;

CREATE INDEX audit_tenant ON audit (tenant_id, place);
CREATE INDEX audit_unsealed ON audit (place) WHERE number IS NULL;
-- Changes of a job, and what was asked of a run: for explanations.
CREATE INDEX audit_job ON audit (job_id, place) WHERE kind IN ('JOB_CREATED', 'JOB_MODIFIED', 'JOB_DELETED');
CREATE INDEX audit_run ON audit (run_id) WHERE run_id IS NOT NULL;
CREATE UNIQUE INDEX audit_chain ON audit (tenant_id, number) WHERE number IS NOT NULL;

-- Where the chain of a tenant begins and ends.
CREATE TABLE audit_chains (
    tenant_id uuid PRIMARY KEY,
    anchor_number bigint NOT NULL,
    anchor_hash bytea NOT NULL,
    -- When the last row that was forgotten was written.
    anchor_at bigint,
    head_number bigint NOT NULL,
    head_hash bytea NOT NULL
);

-- Who has a role that only one node has at a time. An epoch belongs to one node for ever.
CREATE TABLE roles (
    name text PRIMARY KEY,
    epoch bigint NOT NULL,
    node_id uuid,
    since bigint NOT NULL
);
INSERT INTO roles (name, epoch, node_id, since) VALUES ('LEADER', 0, NULL, 0);

-- Schedulers that have seen a run which waits for a majority of them.
CREATE TABLE acknowledgements (
    run_id uuid NOT NULL,
    epoch bigint NOT NULL,
    node_id uuid NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (run_id, epoch, node_id)
);

-- Who owns a shard. The leader says so, in its epoch; the fence grows with every move.
CREATE TABLE shard_owners (
    shard_id uuid PRIMARY KEY,
    -- None while no node may own it.
    node_id uuid,
    fence bigint NOT NULL,
    epoch bigint NOT NULL,
    since bigint NOT NULL
);
CREATE INDEX shard_owners_node ON shard_owners (node_id) WHERE node_id IS NOT NULL;

-- The parts of runs that were divided, in their order. Each is a run of its own.
CREATE TABLE parts (
    parent_id uuid NOT NULL,
    number integer NOT NULL,
    run_id uuid NOT NULL UNIQUE,
    -- The shard of the part; empty when it has none.
    shard text NOT NULL,
    PRIMARY KEY (parent_id, number)
);

-- How old a release may be that works on these tables: the newest migration that it knows has at least this number. A
-- migration that only adds leaves it alone. One that takes something away raises it to that of the release which stopped
-- using what goes (docs/decisions/020-rolling-upgrades.md).
CREATE TABLE compatibility (one smallint PRIMARY KEY CHECK (one = 1), needs integer NOT NULL);
INSERT INTO compatibility (one, needs) VALUES (1, 1);

-- For statements that do in one round trip what took several: a function sees what was committed when it is called, the
-- statement around it only what was committed before it began.

-- Live runs that had ended before: they were sent again, and do not run again. Answers which; null if there is none. They
-- lie between two ids, so that no other partition is looked at.
CREATE FUNCTION forget_ended(sent uuid[], lowest uuid, highest uuid) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
    ended uuid[];
BEGIN
    SELECT array_agg(h.id) INTO ended
    FROM unnest(sent) AS u (id), history h
    WHERE h.id BETWEEN u.id AND u.id AND h.id BETWEEN lowest AND highest AND h.outcome > 0;
    IF ended IS NOT NULL THEN
        DELETE FROM runs WHERE id = ANY (ended);
    END IF;
    RETURN ended;
END $$;

-- Whether a node may be handed runs. It is not buried until the transaction ends: its writes share this lock, and its
-- burial takes it alone.
CREATE FUNCTION lives(lock bigint, node uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock);
    RETURN EXISTS (SELECT 1 FROM nodes WHERE id = node AND NOT buried);
END $$;

-- Ends a transaction that would wait for another one in the wrong order. It begins again.
CREATE FUNCTION give_way() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a run began to wait while it was locked' USING ERRCODE = 'serialization_failure';
END $$;

-- Ends a transaction of which a statement did not write what it must: all of its statements are sent before the first is
-- answered.
CREATE FUNCTION expect_rows(returned bigint, expected bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF returned <> expected THEN
        RAISE EXCEPTION 'the statement returned % rows, expected %', returned, expected USING ERRCODE = 'PX001';
    END IF;
    RETURN true;
END $$;

-- The fencing tokens that jobs see: drawn when a start is decided.
CREATE SEQUENCE start_tokens;

-- Tokens go on behind everything that was drawn before, also before a restore or a failover to a replica that had not
-- heard of it: $1 is the first token of the present second. One session at a time looks and moves.
CREATE FUNCTION advance_start_tokens(first_of_second bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock('start_tokens'::regclass::oid::integer, 1);
    IF (SELECT last_value FROM start_tokens) < first_of_second THEN
        PERFORM setval('start_tokens', first_of_second);
    END IF;
END $$;

-- Times in which no scheduler was alive.
CREATE TABLE outages (
    since bigint PRIMARY KEY,
    until bigint NOT NULL
);

-- Runs of DAGs that have begun, beside their rows of runs. A decision about one is based on a revision.
CREATE TABLE dag_runs (
    run_id uuid PRIMARY KEY,
    job_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    -- The version of the DAG that the run follows.
    version integer NOT NULL,
    revision bigint NOT NULL,
    -- 1 running, 2 held, 3 stopping, 4 cancelling.
    control smallint NOT NULL,
    -- Whether no step is left.
    is_over boolean NOT NULL,
    rerun_of uuid,
    -- Steps that run although their rule would skip them, as a JSON list.
    forced text NOT NULL,
    scheduled_for bigint NOT NULL,
    parameters text
);
CREATE INDEX dag_runs_job ON dag_runs (job_id, run_id);

-- Steps of DAG runs that were released, skipped or expanded. One that is not here is pending.
CREATE TABLE dag_steps (
    dag_run_id uuid NOT NULL,
    step integer NOT NULL,
    -- 0 for the step as a whole, and then its items.
    item integer NOT NULL,
    -- None while it is open.
    outcome smallint,
    reason text,
    reason_text text,
    run_id uuid,
    -- Of a fan-out: how many items it has.
    items integer,
    -- The step whose end decided it.
    by_step integer,
    by_item integer,
    decided_at bigint NOT NULL,
    ended_at bigint,
    -- Whether it was adopted from the run that this one repeats.
    adopted boolean NOT NULL,
    -- Whether its run is one of another job, which is found by its id only here.
    called boolean NOT NULL,
    PRIMARY KEY (dag_run_id, item, step)
);
CREATE INDEX dag_steps_called ON dag_steps (run_id) WHERE called;
