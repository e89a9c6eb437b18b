-- Secrets, sealed. A tenant of zeros stands for the whole cluster, a job of zeros for all jobs of the tenant.
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

-- Who did what. A row is written with what it records, and sealed a moment later: then it has a number and a hash.
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
    -- Runs that ended together.
    runs BLOB NOT NULL,
    number INTEGER,
    hash BLOB
) STRICT;

CREATE INDEX audit_tenant ON audit (tenant_id, place);
CREATE INDEX audit_unsealed ON audit (place) WHERE number IS NULL;
CREATE UNIQUE INDEX audit_chain ON audit (tenant_id, number) WHERE number IS NOT NULL;

-- Where the chain of a tenant begins and ends.
CREATE TABLE audit_chains (
    tenant_id BLOB PRIMARY KEY,
    anchor_number INTEGER NOT NULL,
    anchor_hash BLOB NOT NULL,
    head_number INTEGER NOT NULL,
    head_hash BLOB NOT NULL
) STRICT, WITHOUT ROWID;
