-- Ended runs in the order in which they ended, after a cursor.
SELECT finished_at, id, job_id, tenant_id, outcome, reason, origin, scheduled_for, coalesce(count, 1), due_at, started_at, attempts + lost, dead_letter,
    requested_by
FROM history
WHERE (finished_at, id) > ($1, $2) AND finished_at < $3
ORDER BY finished_at, id LIMIT $4
