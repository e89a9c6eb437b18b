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
