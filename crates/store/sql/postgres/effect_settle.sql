-- Runs whose work is committed with its record have completed, whatever was reported of them: runs
-- $1 under the claim generations $2, with the marks $3 of their finishes and the nodes $4 and
-- starts $5 of their attempts. They are locked.
WITH done AS (
    DELETE FROM runs r
    USING unnest($1::uuid[], $2::integer[], $3::bigint[], $4::uuid[], $5::bigint[]) AS u (run_id, turn, mark, node_id, started_at)
    JOIN effects e ON e.run_id = u.run_id
    WHERE r.id = u.run_id AND r.turn = u.turn
    RETURNING
        r.id, r.job_id, r.tenant_id, r.job_version, r.scheduled_for, r.due_at, r.origin, r.coalesced, r.attempts, r.lost,
        r.shard, r.parameters, r.requested_by, r.created_at, u.mark, u.node_id, u.started_at, e.at
)
INSERT INTO history (
    id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts, lost, shard, parameters,
    requested_by, created_at, finished_at, started_at, node_id, fence, number, attempt_end, outcome, dead_letter, message
)
SELECT
    id, job_id, tenant_id, job_version, scheduled_for, due_at, origin, coalesced, attempts + 1, lost, shard, parameters,
    requested_by, created_at, at, started_at, node_id, mark, attempts + lost + 1, 1, 1, false,
    'its statements were committed together with this record'
FROM done
RETURNING id
