-- All but the newest runs of one job.
WITH gone AS (
    DELETE FROM history
    WHERE id = ANY (ARRAY(
        SELECT h.id FROM history h WHERE h.job_id BETWEEN $1 AND $1
        ORDER BY h.job_id DESC, h.id DESC LIMIT $3::bigint OFFSET $2::bigint
    ))
    RETURNING id
),
attempt AS (
    DELETE FROM attempts a USING gone g WHERE a.run_id BETWEEN g.id AND g.id
),
acknowledgement AS (
    DELETE FROM acknowledgements a WHERE (a.run_id IN (SELECT id FROM gone)) IS TRUE
)
SELECT count(*) FROM gone
