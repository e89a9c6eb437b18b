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
    dead boolean NOT NULL,
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
    -- Dead, and the last of its runs was handed on.
    cleared boolean NOT NULL DEFAULT false,
    -- How far the clock of the store is ahead of its own, as it last said.
    clock_offset_us bigint NOT NULL DEFAULT 0,
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
    owner_id uuid NOT NULL,
    -- The only time of a one-time job.
    once_at bigint
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
    -- See domain::run::Wait; 5 is a message, which workers pull.
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
    -- When its time limit ends, once its worker has begun.
    deadline bigint,
    node_id uuid,
    -- Nine minus the priority, so that the most urgent come first.
    urgency smallint NOT NULL,
    -- 0 ready, 1 delayed, 2 leased, 3 behind an earlier message with its ordering key.
    state smallint NOT NULL,
    workspace text NOT NULL COLLATE "C",
    ordering_key text COLLATE "C",
    -- What its worker said last about how far it is.
    progress text,
    -- The token of the last lease, if its worker gave the message back untouched: that report may come again.
    released_fence bigint
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

-- The workspace of a queue that was served last, how many messages it got in that turn, and the tokens of the rate limit.
CREATE TABLE queue_cursors (
    queue_id uuid PRIMARY KEY,
    workspace text NOT NULL COLLATE "C",
    tokens double precision NOT NULL,
    refilled_at bigint NOT NULL,
    served bigint NOT NULL
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
    -- The queue whose messages it is about: it goes with the queue.
    queue_id uuid,
    CHECK ((role_id IS NULL) <> (privilege IS NULL))
);
CREATE INDEX awards_tenant ON awards (tenant_id, id);
CREATE INDEX awards_to ON awards (to_id);
CREATE INDEX awards_role ON awards (role_id) WHERE role_id IS NOT NULL;
CREATE INDEX awards_queue ON awards (queue_id) WHERE queue_id IS NOT NULL;

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
    -- What the salts of the users' passwords and keys are made of at the SQL interface; drawn at the first start
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

-- The parts of runs that were split, in their order. Each is a run of its own.
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

-- Whether a node may be handed runs. It is not declared dead until the transaction ends: its writes share this lock, and its
-- death takes it alone.
CREATE FUNCTION lives(lock bigint, node uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(lock);
    RETURN EXISTS (SELECT 1 FROM nodes WHERE id = node AND NOT dead);
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

-- Database roles that may send messages in their own transactions: as which user, and to which queue.
CREATE TABLE enqueue_roles (
    role name NOT NULL,
    queue_id uuid NOT NULL,
    user_id uuid NOT NULL,
    PRIMARY KEY (role, queue_id)
);

-- The queue of a name that a role may send to.
CREATE FUNCTION enqueue_right(sender name, queue text) RETURNS TABLE (queue_id uuid, user_id uuid)
LANGUAGE plpgsql STABLE SET search_path = punctual, pg_temp AS $$
BEGIN
    RETURN QUERY
    SELECT r.queue_id, r.user_id
    FROM enqueue_roles r
    JOIN jobs j ON j.id = r.queue_id AND j.state <> 'DELETED'
    JOIN identities u ON u.id = r.user_id
    WHERE r.role = sender AND j.name = queue;
END $$;

-- Lets a database role send messages to a queue as a user of the queue's tenant.
CREATE FUNCTION allow_enqueue(sender name, tenant text, user_name text, queue text) RETURNS void
LANGUAGE plpgsql SET search_path = punctual, pg_temp AS $$
DECLARE
    of_tenant uuid;
    as_user uuid;
    to_queue uuid;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = sender) THEN
        RAISE EXCEPTION 'role "%" does not exist', sender USING ERRCODE = 'undefined_object';
    END IF;
    SELECT id INTO of_tenant FROM identities WHERE kind = 1 AND name = tenant;
    IF of_tenant IS NULL THEN
        RAISE EXCEPTION 'tenant "%" does not exist', tenant USING ERRCODE = 'undefined_object';
    END IF;
    SELECT id INTO as_user FROM identities WHERE kind = 2 AND tenant_id = of_tenant AND name = user_name;
    IF as_user IS NULL THEN
        RAISE EXCEPTION 'user "%" does not exist in tenant "%"', user_name, tenant USING ERRCODE = 'undefined_object';
    END IF;
    SELECT id INTO to_queue FROM jobs
    WHERE tenant_id = of_tenant AND name = queue AND state <> 'DELETED' AND definition::jsonb -> 'queue' IS NOT NULL;
    IF to_queue IS NULL THEN
        RAISE EXCEPTION 'queue "%" does not exist in tenant "%"', queue, tenant USING ERRCODE = 'undefined_object';
    END IF;
    IF EXISTS (
        SELECT 1 FROM enqueue_roles r JOIN jobs j ON j.id = r.queue_id
        WHERE r.role = sender AND j.tenant_id <> of_tenant AND j.state <> 'DELETED'
    ) THEN
        RAISE EXCEPTION 'role "%" sends to queues of another tenant', sender USING ERRCODE = 'invalid_grant_operation';
    END IF;
    INSERT INTO enqueue_roles (role, queue_id, user_id) VALUES (sender, to_queue, as_user)
    ON CONFLICT (role, queue_id) DO UPDATE SET user_id = excluded.user_id;
    EXECUTE format('GRANT USAGE ON SCHEMA punctual TO %I', sender);
END $$;
REVOKE ALL ON FUNCTION allow_enqueue(name, text, text, text) FROM PUBLIC;

-- Takes that right away.
CREATE FUNCTION disallow_enqueue(sender name, queue text) RETURNS boolean
LANGUAGE plpgsql SET search_path = punctual, pg_temp AS $$
BEGIN
    DELETE FROM enqueue_roles r USING jobs j
    WHERE r.role = sender AND j.id = r.queue_id AND j.name = queue;
    RETURN FOUND;
END $$;
REVOKE ALL ON FUNCTION disallow_enqueue(name, text) FROM PUBLIC;

-- Sends a message to a queue in the transaction of the caller: it is there when that commits, and not if it is rolled
-- back. Answers its id, or that of an earlier message with its deduplication key.
CREATE FUNCTION enqueue(
    queue text, payload jsonb, workspace text DEFAULT '', priority integer DEFAULT NULL, process_after timestamptz DEFAULT NULL,
    deduplication_key text DEFAULT NULL, ordering_key text DEFAULT NULL, headers jsonb DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = punctual, pg_temp AS $$
DECLARE
    to_queue uuid;
    as_user uuid;
    of_job record;
    settings jsonb;
    now bigint := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    due bigint := greatest(now, (extract(epoch FROM process_after) * 1000000)::bigint);
    rank integer;
    message uuid;
    body jsonb;
    earlier uuid;
    is_blocked boolean := false;
BEGIN
    SELECT r.queue_id, r.user_id INTO to_queue, as_user FROM enqueue_right(session_user, enqueue.queue) r;
    IF to_queue IS NULL THEN
        RAISE EXCEPTION 'permission denied for queue "%"', enqueue.queue
            USING ERRCODE = 'insufficient_privilege',
                HINT = format('The administrator allows it with punctual.allow_enqueue(%L, tenant, user, %L).', session_user, enqueue.queue);
    END IF;
    SELECT * INTO of_job FROM jobs WHERE id = to_queue;
    settings := of_job.definition::jsonb -> 'queue';
    IF (settings ->> 'is_draining')::boolean THEN
        RAISE EXCEPTION 'queue "%" is draining and takes no new messages', enqueue.queue USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    rank := coalesce(enqueue.priority, (of_job.definition::jsonb ->> 'priority')::integer, 5);
    IF rank NOT BETWEEN coalesce((settings -> 'priority_range' ->> 0)::integer, 0) AND coalesce((settings -> 'priority_range' ->> 1)::integer, 9) THEN
        RAISE EXCEPTION 'priority % is not in the range of queue "%"', rank, enqueue.queue USING ERRCODE = 'numeric_value_out_of_range';
    END IF;
    IF enqueue.payload IS NULL OR octet_length(enqueue.payload::text) > 1048576 THEN
        RAISE EXCEPTION 'payload must be JSON of at most 1048576 bytes' USING ERRCODE = 'string_data_right_truncation';
    END IF;
    IF greatest(octet_length(enqueue.workspace), octet_length(deduplication_key), octet_length(enqueue.ordering_key)) > 200
        OR deduplication_key = '' OR enqueue.ordering_key = '' OR enqueue.workspace IS NULL
    THEN
        RAISE EXCEPTION 'workspace and keys have at most 200 bytes, and keys are not empty' USING ERRCODE = 'string_data_right_truncation';
    END IF;
    IF jsonb_typeof(enqueue.headers) <> 'object'
        OR EXISTS (SELECT 1 FROM jsonb_each(enqueue.headers) AS h WHERE jsonb_typeof(h.value) <> 'string')
        OR (SELECT count(*) FROM jsonb_object_keys(enqueue.headers)) > 64
    THEN
        RAISE EXCEPTION 'headers must be a JSON object with at most 64 texts' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    message := (
        lpad(to_hex(due / 1000), 12, '0') || '7' || lpad(to_hex((due % 1000) * 4096 / 1000), 3, '0')
        || substr(replace(gen_random_uuid()::text, '-', ''), 17)
    )::uuid;
    IF deduplication_key IS NOT NULL THEN
        INSERT INTO message_keys AS k (queue_id, key, run_id, until)
        VALUES (
            to_queue, deduplication_key, message,
            now + (extract(epoch FROM coalesce((settings ->> 'deduplication')::interval, interval '5 minutes')) * 1000000)::bigint
        )
        ON CONFLICT (queue_id, key) DO UPDATE SET run_id = excluded.run_id, until = excluded.until
        WHERE k.until <= now AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.run_id = k.run_id);
        SELECT k.run_id INTO earlier FROM message_keys k WHERE k.queue_id = to_queue AND k.key = deduplication_key;
        IF earlier <> message THEN
            RETURN earlier;
        END IF;
    END IF;
    IF enqueue.ordering_key IS NOT NULL OR settings -> 'max_depth' IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(to_queue::text, 24));
        IF (SELECT count(*) FROM (SELECT 1 FROM runs WHERE job_id = to_queue LIMIT (settings ->> 'max_depth')::bigint) AS r)
            >= (settings ->> 'max_depth')::bigint
        THEN
            RAISE EXCEPTION 'queue "%" is full (max_depth = %)', enqueue.queue, settings ->> 'max_depth' USING ERRCODE = 'configuration_limit_exceeded';
        END IF;
        is_blocked := enqueue.ordering_key IS NOT NULL AND EXISTS (
            SELECT 1 FROM messages m WHERE m.queue_id = to_queue AND m.ordering_key = enqueue.ordering_key AND m.ordering_key IS NOT NULL
        );
    END IF;
    body := jsonb_strip_nulls(jsonb_build_object(
        'workspace', nullif(enqueue.workspace, ''), 'headers', enqueue.headers, 'ordering_key', enqueue.ordering_key,
        'deduplication_key', deduplication_key
    )) || jsonb_build_object('payload', enqueue.payload);
    INSERT INTO runs (
        id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, lane, origin, coalesced,
        ignore_dependencies, parameters, attempts, lost, turn, wait, requested_by, created_at
    )
    VALUES (
        message, to_queue, of_job.tenant_id, of_job.version, due, '', due, due, rank, 7, 0, true, body::text, 0, 0, 0, 5,
        as_user, now
    );
    INSERT INTO messages (run_id, queue_id, at, order_at, expires_at, urgency, state, workspace, ordering_key)
    VALUES (
        message, to_queue, due, due,
        due + (extract(epoch FROM (settings ->> 'time_to_live')::interval) * 1000000)::bigint,
        9 - rank, CASE WHEN is_blocked THEN 3 WHEN due > now THEN 1 ELSE 0 END, enqueue.workspace, enqueue.ordering_key
    );
    INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
    VALUES (
        of_job.tenant_id, now, coalesce((SELECT i.name FROM identities i WHERE i.id = as_user), as_user::text), 'RUNS_REQUESTED',
        'REQUESTED', '', uuid_send(message) || uuid_send(to_queue) || int2send(7::smallint)
    );
    PERFORM pg_notify('punctual', '');
    RETURN message;
END $$;

-- Runs of jobs with a pool: those that have a place of it, and those in line. A row with a turn is a place: it ends with
-- the claim of the run that has this turn. A row without one is in line; called_at is when the run was told to take its
-- place. A row whose run or claim has ended is void and goes with the next look.
CREATE TABLE pool_runs (
    run_id uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    pool text NOT NULL COLLATE "C",
    job_id uuid NOT NULL,
    weight bigint NOT NULL,
    priority bigint NOT NULL,
    due_at bigint NOT NULL,
    turn bigint,
    since bigint NOT NULL,
    called_at bigint
);
CREATE INDEX pool_runs_pool ON pool_runs (tenant_id, pool);
CREATE INDEX pool_runs_line ON pool_runs (tenant_id, pool) WHERE turn IS NULL;

-- Versions of artifacts. The content is in object storage under its digest, before its row is here. A deleted version
-- stays, so that its number is not used again.
CREATE TABLE artifacts (
    tenant_id uuid NOT NULL,
    name text NOT NULL COLLATE "C",
    version bigint NOT NULL,
    digest text NOT NULL COLLATE "C",
    bytes bigint NOT NULL,
    unpacked_bytes bigint NOT NULL,
    entries bigint NOT NULL,
    -- A JSON object of texts.
    labels text NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    deleted_at bigint,
    PRIMARY KEY (tenant_id, name, version)
);
CREATE INDEX artifacts_digest ON artifacts (digest);

-- Exactly-once SQL jobs. A key is the right of one attempt to record its effect: the hash of a secret that only the
-- attempt's executor knows. An effect is committed in the transaction of the job's own statements: where there is a row,
-- the work was done, and its run has completed, whatever became of its node.
CREATE TABLE effect_keys (
    run_id uuid PRIMARY KEY,
    generation integer NOT NULL,
    hash bytea NOT NULL
);
CREATE TABLE effects (
    run_id uuid PRIMARY KEY,
    generation integer NOT NULL,
    at bigint NOT NULL
);

-- Called by the login of the job as the last statement of its transaction. The claim cannot end before the transaction
-- does: what ends it locks the run, and so does this. A client that stalls before its COMMIT is cut off.
CREATE FUNCTION record_effect(run uuid, claim_generation integer, secret text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = punctual, pg_temp AS $$
BEGIN
    PERFORM 1
    FROM runs r
    JOIN effect_keys k ON k.run_id = r.id
    WHERE r.id = run AND r.turn = claim_generation AND r.wait = 0 AND k.generation = claim_generation
        AND k.hash = sha256(convert_to(secret, 'UTF8'))
    FOR SHARE OF r;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim of run % has ended', run USING ERRCODE = 'PX002';
    END IF;
    INSERT INTO effects (run_id, generation, at) VALUES (run, claim_generation, clock());
    PERFORM set_config('idle_in_transaction_session_timeout', '10s', true);
END $$;
GRANT USAGE ON SCHEMA punctual TO PUBLIC;
GRANT EXECUTE ON FUNCTION record_effect(uuid, integer, text) TO PUBLIC;

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
