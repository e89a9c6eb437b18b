-- All but the newest runs of one job.
WITH gone AS (
    DELETE FROM history
    WHERE id = ANY (ARRAY(
        SELECT h.id FROM history h WHERE h.job_id = $1 ORDER BY h.id DESC LIMIT $3::bigint OFFSET $2::bigint
    ))
    RETURNING id
),
attempt AS (
    DELETE FROM attempts a USING gone g WHERE a.run_id = g.id
)
SELECT count(*) FROM gone
