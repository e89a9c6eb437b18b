-- History of one job that is old enough.
DELETE FROM history WHERE id IN (
    SELECT id FROM history
    WHERE job_id = ?1 AND finished_at < CASE WHEN outcome IN (2, 4) THEN ?3 ELSE ?2 END
    ORDER BY id LIMIT ?4
)
RETURNING id
