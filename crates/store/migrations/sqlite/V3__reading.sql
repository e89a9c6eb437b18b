-- Ended runs of a tenant, newest first: all of them, or those with some outcomes.
CREATE INDEX history_tenant ON history (tenant_id, outcome, id, origin);
-- Ended runs in the order in which they ended: for the tally and for those who follow.
CREATE INDEX history_finished ON history (finished_at, id);
-- Changed jobs in the order of their changes, for those who follow.
CREATE INDEX jobs_updated ON jobs (updated_at, id);

-- The tags of jobs that are not deleted, by name of the job.
CREATE TABLE job_tags (
    tenant_id BLOB NOT NULL,
    tag TEXT NOT NULL,
    name TEXT NOT NULL,
    job_id BLOB NOT NULL,
    PRIMARY KEY (tenant_id, tag, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_tags_job ON job_tags (job_id);

INSERT OR IGNORE INTO job_tags (tenant_id, tag, name, job_id)
SELECT jobs.tenant_id, tags.value, jobs.name, jobs.id
FROM jobs, json_each(jobs.definition, '$.tags') AS tags
WHERE jobs.state <> 'DELETED';

-- What a node says about itself, and when it was last heard of.
ALTER TABLE nodes ADD COLUMN address TEXT;
ALTER TABLE nodes ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN roles TEXT NOT NULL DEFAULT '[]';
ALTER TABLE nodes ADD COLUMN joined_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN renewed_at INTEGER NOT NULL DEFAULT 0;

-- Requests that their callers may send again, and what was answered.
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

-- Tenants who were told that their dead letters wait.
CREATE TABLE dead_letter_notices (
    tenant_id BLOB PRIMARY KEY,
    told_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How runs ended, by hour; a row without a job (a zero id) is about all jobs of the tenant.
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

-- The last ended run that was tallied. One row.
CREATE TABLE tally_cursor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    finished_at INTEGER NOT NULL,
    id BLOB NOT NULL
) STRICT;

INSERT INTO tally_cursor (one, finished_at, id) VALUES (1, 0, zeroblob(16));

-- What the whole cluster agrees on.
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    version INTEGER NOT NULL,
    changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
