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
    -- Runs that ended together.
    runs bytea NOT NULL,
    number bigint,
    hash bytea
) WITH (fillfactor = 80);

CREATE INDEX audit_tenant ON audit (tenant_id, place);
CREATE INDEX audit_unsealed ON audit (place) WHERE number IS NULL;
CREATE UNIQUE INDEX audit_chain ON audit (tenant_id, number) WHERE number IS NOT NULL;

-- Where the chain of a tenant begins and ends.
CREATE TABLE audit_chains (
    tenant_id uuid PRIMARY KEY,
    anchor_number bigint NOT NULL,
    anchor_hash bytea NOT NULL,
    head_number bigint NOT NULL,
    head_hash bytea NOT NULL
);
