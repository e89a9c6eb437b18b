-- The leader of an epoch publishes the cluster policy. Under a share of the leadership.
WITH leads AS (
    SELECT 1 FROM roles l JOIN nodes n ON n.id = l.node_id AND NOT n.dead
    WHERE l.name = 'LEADER' AND l.node_id = $1 AND l.epoch = $2
),
done AS (
    INSERT INTO settings (name, value, version, changed_at)
    SELECT 'cluster.policy', $3, 1, clock() FROM leads
    ON CONFLICT (name) DO UPDATE SET
        value = excluded.value, version = settings.version + 1, changed_at = excluded.changed_at
    WHERE settings.value <> excluded.value
    RETURNING version
),
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, job_id, outcome, details, runs)
    SELECT '00000000-0000-0000-0000-000000000000'::uuid, clock(), $4, 'SETTING_CHANGED', NULL, 'DONE', $5, '' FROM done
)
SELECT 1 FROM leads
