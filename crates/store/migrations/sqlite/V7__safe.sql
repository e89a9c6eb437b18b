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
