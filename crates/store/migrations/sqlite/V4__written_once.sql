-- A run is written once, when it becomes known, and its end is a row of its own. What can still change is found
-- through three small tables: which runs have not ended (live), which can be claimed (queue), who holds which (claims).

DROP INDEX runs_lane;
DROP INDEX runs_job;
DROP INDEX runs_waiting;
DROP INDEX runs_cancelled;
DROP INDEX history_job;
DROP INDEX history_dead;
ALTER TABLE runs RENAME TO old_runs;
ALTER TABLE history RENAME TO old_history;

-- Runs, and times that ended without a run.
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
    -- When it first could have started, which retries do not move: the order in which runs of a
    -- job take turns.
    order_at INTEGER NOT NULL,
    priority INTEGER NOT NULL,
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
    count INTEGER
) STRICT;

-- How a run ended, for ever the same.
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
    -- Of runs that did not complete: whose they are, and their id.
    tenant_id BLOB,
    id BLOB
) STRICT;

-- Runs that have not ended, in the order in which those of a job take turns.
CREATE TABLE live (
    job_id BLOB NOT NULL,
    order_at INTEGER NOT NULL,
    id BLOB NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (job_id, order_at, id)
) STRICT, WITHOUT ROWID;

-- Runs that nobody holds and that wait for nothing but their time, in lanes.
CREATE TABLE queue (
    tenant_id BLOB NOT NULL,
    priority INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, priority, due_at, seq)
) STRICT, WITHOUT ROWID;

-- Batches of grants, as (fence, seq, turn) each. A grant whose run has ended, vanished or taken another turn is over.
CREATE TABLE claims (
    first INTEGER PRIMARY KEY,
    node_id BLOB NOT NULL,
    grants BLOB NOT NULL
) STRICT;

INSERT INTO runs (id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, wait, scheduled_last, count)
SELECT id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, due_at, 0, origin, coalesced,
    0, parameters, attempts, lost, 0, 0,
    CASE WHEN count > 1 OR scheduled_last <> scheduled_for THEN scheduled_last END,
    CASE WHEN count > 1 OR scheduled_last <> scheduled_for THEN count END
FROM old_history ORDER BY id;

-- Both tables are walked in the order of their keys, so their rows meet without a search or a table in between.
INSERT INTO ends (seq, outcome, reason, reason_text, dead_letter, attempts, lost, finished_at, number, attempt_end, node_id,
    fence, started_at, message, error, result, rows_affected, details, tenant_id, id)
SELECT runs.seq, outcome, reason, reason_text, dead_letter, old_history.attempts, old_history.lost, finished_at, number,
    attempt_end, node_id, fence, started_at, message, error, result, rows_affected, details,
    CASE WHEN outcome <> 1 THEN runs.tenant_id END, CASE WHEN outcome <> 1 THEN runs.id END
FROM runs CROSS JOIN old_history ON old_history.id = runs.id
ORDER BY runs.seq;

INSERT INTO runs (id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, wait, wait_until, cancel_code, cancel_text)
SELECT id, job_id, tenant_id, job_version, scheduled_for, shard, due_at, order_at, priority, origin, coalesced,
    ignore_dependencies, parameters, attempts, lost, turn, wait, wait_until, cancel_code, cancel_text
FROM old_runs
ORDER BY order_at, id;

CREATE UNIQUE INDEX runs_id ON runs (id);
CREATE INDEX runs_job ON runs (job_id, id);
CREATE INDEX runs_tenant ON runs (tenant_id, id);
CREATE INDEX runs_waiting ON runs (job_id, wait, order_at, id) WHERE wait <> 0;

-- In the order in which runs ended: for the tally and for those who follow.
CREATE INDEX ends_finished ON ends (finished_at);
-- What did not complete is rare, and is what people look for.
CREATE INDEX ends_tenant ON ends (tenant_id, outcome, id) WHERE outcome <> 1;
CREATE INDEX ends_dead ON ends (tenant_id, id) WHERE dead_letter = 1;

INSERT INTO live (job_id, order_at, id, seq)
SELECT runs.job_id, runs.order_at, runs.id, runs.seq FROM old_runs CROSS JOIN runs ON runs.id = old_runs.id;

INSERT INTO queue (tenant_id, priority, due_at, seq)
SELECT runs.tenant_id, runs.priority, runs.due_at, runs.seq
FROM old_runs CROSS JOIN runs ON runs.id = old_runs.id
WHERE old_runs.node_id IS NULL AND old_runs.wait = 0;

INSERT INTO claims (first, node_id, grants)
SELECT old_runs.fence, old_runs.node_id,
    unhex(printf('%016x%016x%08x', old_runs.fence, runs.seq, runs.turn))
FROM old_runs CROSS JOIN runs ON runs.id = old_runs.id
WHERE old_runs.node_id IS NOT NULL;

UPDATE meta SET fence = max(fence, (SELECT coalesce(max(seq), 0) FROM runs));

DROP TABLE old_runs;
DROP TABLE old_history;
