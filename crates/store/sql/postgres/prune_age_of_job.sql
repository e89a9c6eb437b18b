-- History of one job that is old enough.
WITH gone AS (
    DELETE FROM history
    WHERE id = ANY (ARRAY(
        SELECT h.id FROM history h
        WHERE h.job_id BETWEEN $1 AND $1
            AND h.finished_at < CASE WHEN h.outcome IN (2, 4) THEN $3::bigint ELSE $2::bigint END
        ORDER BY h.job_id, h.id LIMIT $4::bigint
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
