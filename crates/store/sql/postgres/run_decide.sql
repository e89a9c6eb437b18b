-- A run that is HELD is attempted again ($2 is null), or ends as $2 with the reason $3 and $4. Under the gate, with the lock
-- of waits alone.
WITH target AS MATERIALIZED (SELECT id FROM runs WHERE id = $1 AND wait + 0 = 7 FOR UPDATE NOWAIT),
again AS (
    UPDATE runs SET wait = 0, wait_until = NULL
    WHERE id = (SELECT id FROM target) AND $2::smallint IS NULL
    RETURNING id
),
ended AS (
    DELETE FROM runs WHERE id = (SELECT id FROM target) AND $2::smallint IS NOT NULL
    RETURNING
        id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters,
        requested_by, created_at
),
record AS (
    INSERT INTO history (
        id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters,
        requested_by, created_at, finished_at, outcome, reason, reason_text, dead_letter
    )
    SELECT
        id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters,
        requested_by, created_at, clock(), $2, $3, $4, $2 = 2
    FROM ended
    RETURNING id
)
SELECT EXISTS (SELECT 1 FROM again) OR EXISTS (SELECT 1 FROM record) AS done
