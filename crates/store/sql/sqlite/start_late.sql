-- Ended runs of a job that began late or never, latest first and before a place. The words are those of the index.
SELECT id, coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807), outcome,
    attempts + lost
FROM ends INDEXED BY ends_late
WHERE job_id = ?1
    AND (coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807), id) < (?2, ?3)
ORDER BY coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807) DESC, id DESC
