-- Times are microseconds since the epoch, UTC. Nothing here has a default that reads a clock or
-- draws a number: every statement hands in every value.

-- The store's clock. It stands still within a statement.
CREATE FUNCTION clock() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint $$;

-- One row. Whoever changes who holds or waits for what locks it until commit; it also numbers the
-- grants.
CREATE TABLE gate (
    one smallint PRIMARY KEY CHECK (one = 1),
    fence bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0);

INSERT INTO gate (one, fence) VALUES (1, 0);

CREATE TABLE nodes (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    joined_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    buried boolean NOT NULL
) WITH (fillfactor = 50);

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
    changed_fence bigint
);

CREATE UNIQUE INDEX jobs_name ON jobs (tenant_id, name) WHERE state <> 'DELETED';
CREATE INDEX jobs_own_retention ON jobs (id) WHERE own_retention;
CREATE INDEX jobs_due ON jobs (next_run) WHERE state = 'ENABLED' AND next_run IS NOT NULL;

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
    -- Where the gate stood when this was written: whoever got a fence up to that may have missed it.
    fence bigint NOT NULL
) WITH (fillfactor = 50);

-- Runs that can still change.
CREATE TABLE runs (
    id uuid PRIMARY KEY,
    job_id uuid NOT NULL,
    tenant_id uuid NOT NULL,
    scheduled_for bigint NOT NULL,
    due_at bigint NOT NULL,
    -- When it first could have started, which retries do not move: the order in which runs of a
    -- job take turns.
    order_at bigint NOT NULL,
    wait_until bigint,
    job_version integer NOT NULL,
    coalesced integer NOT NULL,
    attempts integer NOT NULL,
    lost integer NOT NULL,
    turn integer NOT NULL,
    priority smallint NOT NULL,
    origin smallint NOT NULL,
    wait smallint NOT NULL,
    ignore_dependencies boolean NOT NULL,
    shard text NOT NULL,
    parameters text,
    cancel_code text,
    cancel_text text
) WITH (
    vacuum_truncate = off,
    autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_analyze_threshold = 100000, autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX runs_lane ON runs (tenant_id, priority, due_at) WHERE wait = 0;
-- No index but the primary key holds the id. The planner knows nothing of a table that is empty
-- whenever a vacuum looks, and would as soon search the whole of another index for an id.
CREATE INDEX runs_job ON runs (job_id, order_at);
CREATE INDEX runs_waiting ON runs (job_id, wait, order_at) WHERE wait <> 0;
CREATE INDEX runs_wait_until ON runs (wait_until) WHERE wait_until IS NOT NULL;
CREATE INDEX runs_cancelled ON runs (id) WHERE cancel_code IS NOT NULL;

-- Which node holds what: a row for each batch that was claimed, so that a claim costs one write.
-- Run k of a batch, from 1, has the fence id + k. A run is held if its id and turn are here.
CREATE TABLE claims (
    id bigint PRIMARY KEY,
    node_id uuid NOT NULL,
    claimed_at bigint NOT NULL,
    run_ids uuid[] NOT NULL,
    turns integer[] NOT NULL
) WITH (
    vacuum_truncate = off, toast.vacuum_truncate = off,
    autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0,
    toast.autovacuum_vacuum_threshold = 10000, toast.autovacuum_vacuum_scale_factor = 0
);

-- Ids do not compress, so it is not tried.
ALTER TABLE claims ALTER COLUMN run_ids SET STORAGE EXTERNAL;

-- Runs that ended, and times that ended without a run: one row for each, for ever the same.
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
    result text
);

CREATE INDEX history_job ON history (job_id, id);
CREATE INDEX history_dead ON history (tenant_id, id) WHERE dead_letter;

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
    PRIMARY KEY (run_id, number)
);

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
    PRIMARY KEY (channel, alert_id)
);
