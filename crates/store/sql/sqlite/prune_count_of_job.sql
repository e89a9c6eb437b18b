-- All but the newest runs of one job.
DELETE FROM history WHERE id IN (
    SELECT id FROM history WHERE job_id = ?1 ORDER BY id DESC LIMIT ?3 OFFSET ?2
)
RETURNING id
