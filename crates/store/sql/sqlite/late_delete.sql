-- A run that is about to be gone.
DELETE FROM late
WHERE (job_id, began, id) = (
    SELECT r.job_id, coalesce(e.started_at, CASE WHEN e.attempts + e.lost > 0 THEN e.finished_at END, 9223372036854775807), r.id
    FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
    WHERE r.seq = ?1
)
