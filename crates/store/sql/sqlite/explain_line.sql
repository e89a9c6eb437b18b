-- Runs of a job that wait in line before another one.
SELECT count(*) FROM (
    SELECT 1 FROM runs WHERE job_id = ?1 AND wait = 1 AND (order_at, id) < (?2, ?3)
        AND NOT EXISTS (SELECT 1 FROM ends WHERE ends.seq = runs.seq)
    LIMIT ?4
)
