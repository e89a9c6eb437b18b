-- Ended runs of a tenant, newest first: all of them, or those with some outcomes.
CREATE INDEX history_tenant ON history (tenant_id, outcome, id, origin);
-- Ended runs in the order in which they ended: for the tally and for those who follow.
CREATE INDEX history_finished ON history (finished_at, id);
-- Changed jobs in the order of their changes, for those who follow.
CREATE INDEX jobs_updated ON jobs (updated_at, id);

-- The tags of jobs that are not deleted, by name of the job.
CREATE TABLE job_tags (
    tenant_id uuid NOT NULL,
    tag text NOT NULL COLLATE "C",
    name text NOT NULL COLLATE "C",
    job_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, tag, name)
);

CREATE INDEX job_tags_job ON job_tags (job_id);

INSERT INTO job_tags (tenant_id, tag, name, job_id)
SELECT j.tenant_id, t.tag, j.name, j.id
FROM jobs j CROSS JOIN LATERAL json_array_elements_text(j.definition::json -> 'tags') AS t (tag)
WHERE j.state <> 'DELETED'
ON CONFLICT DO NOTHING;

-- What a node says about itself, and when it was last heard of.
ALTER TABLE nodes ADD COLUMN address text;
ALTER TABLE nodes ADD COLUMN version text NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN roles text[] NOT NULL DEFAULT '{}';
ALTER TABLE nodes ADD COLUMN renewed_at bigint NOT NULL DEFAULT 0;

-- Requests that their callers may send again, and what was answered.
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

-- Tenants who were told that their dead letters wait.
CREATE TABLE dead_letter_notices (
    tenant_id uuid PRIMARY KEY,
    told_at bigint NOT NULL
);

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
