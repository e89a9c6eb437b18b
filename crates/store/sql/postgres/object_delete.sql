-- An object that nobody wants any more, if it is the one that was seen, and what was recorded and kept secret under its id.
WITH gone AS (
    DELETE FROM objects WHERE id = $1 AND tenant_id = $2 AND version = $3 RETURNING id, tenant_id, kind, name
),
forgotten AS (
    DELETE FROM deliveries USING gone WHERE channel = gone.id::text
),
secrets_gone AS (
    DELETE FROM secrets s USING gone WHERE s.tenant_id = gone.tenant_id AND s.job_id = gone.id
),
disowned AS (
    DELETE FROM shard_owners s USING gone WHERE s.shard_id = gone.id
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
    SELECT
        tenant_id, clock(), $4, 'SETTING_CHANGED', 'DELETED',
        format('{"kind":%s,"name":%s,"version":0}', to_json(kind), to_json(name)), ''
    FROM gone
)
SELECT id FROM gone
