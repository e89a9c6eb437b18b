-- An ended run. One that ended without another attempt shows the one before.
SELECT h.id, h.job_id, h.tenant_id, h.job_version, h.scheduled_for, h.scheduled_last, h.count, h.due_at, h.origin, h.coalesced,
    h.parameters, h.outcome, h.reason, h.reason_text, h.dead_letter, h.attempts, h.lost, h.finished_at, h.result, h.rows_affected,
    coalesce(h.node_id, a.node_id) AS node_id, CASE WHEN h.number IS NULL THEN a.fence ELSE h.fence END AS fence,
    coalesce(h.started_at, a.started_at) AS started_at,
    CASE WHEN h.number IS NULL THEN a.message ELSE h.message END AS message,
    CASE WHEN h.number IS NULL THEN a.error ELSE h.error END AS error
FROM history AS h LEFT JOIN attempts AS a
    ON h.number IS NULL AND a.run_id = h.id AND a.number = (SELECT max(number) FROM attempts WHERE run_id = h.id)
WHERE h.id = ?1
