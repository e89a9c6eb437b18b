-- Ended runs by id, with their last attempt.
SELECT
    h.id, h.job_id, h.tenant_id, h.job_version, h.outcome, h.reason, h.reason_text,
    h.scheduled_for, coalesce(h.scheduled_last, h.scheduled_for) AS scheduled_last, coalesce(h.count, 1) AS count,
    h.origin, h.coalesced, h.due_at, h.attempts, h.lost,
    coalesce(h.node_id, a.node_id) AS node_id, CASE WHEN h.number IS NULL THEN a.fence ELSE h.fence END AS fence,
    coalesce(h.started_at, a.started_at) AS started_at, h.finished_at,
    CASE WHEN h.number IS NULL THEN a.message ELSE h.message END AS message,
    CASE WHEN h.number IS NULL THEN a.error ELSE h.error END AS error,
    h.result, h.rows_affected, h.dead_letter, h.parameters, h.shard, h.requested_by, h.created_at,
    EXISTS (SELECT 1 FROM effects e WHERE e.run_id = h.id) AS exactly_once
FROM unnest($1::uuid[]) AS u (id)
JOIN history h ON h.id BETWEEN u.id AND u.id
LEFT JOIN LATERAL (
    SELECT * FROM attempts a WHERE a.run_id = h.id ORDER BY a.number DESC LIMIT 1
) AS a ON h.number IS NULL AND h.attempts + h.lost > 0
