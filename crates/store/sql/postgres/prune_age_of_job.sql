-- History of one job that is old enough. $5 is the newest id that can be meant.
WITH old AS MATERIALIZED (
    SELECT h.id FROM history h
    WHERE h.job_id >= $1 AND (h.job_id, h.id) < ($1, $5::uuid)
        AND h.finished_at < CASE WHEN h.outcome IN (2, 4) THEN $3::bigint ELSE $2::bigint END
    ORDER BY h.job_id, h.id LIMIT $4::bigint
),
gone AS (
    DELETE FROM history h USING old o WHERE h.id BETWEEN o.id AND o.id RETURNING h.id
),
attempt AS (
    DELETE FROM attempts a USING gone g WHERE a.run_id BETWEEN g.id AND g.id
),
output AS (
    DELETE FROM outputs o USING gone g WHERE o.run_id BETWEEN g.id AND g.id
),
effect AS (
    DELETE FROM effects e USING gone g WHERE e.run_id BETWEEN g.id AND g.id
),
acknowledgement AS (
    DELETE FROM acknowledgements a WHERE (a.run_id IN (SELECT id FROM gone)) IS TRUE
)
SELECT count(*) FROM gone
