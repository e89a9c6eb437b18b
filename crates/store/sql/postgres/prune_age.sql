-- History that is old enough, oldest first; failures are kept longer. Jobs with a rule of their own
-- are left alone. An id carries the nominal time, and nothing ends before that: $1 is the newest that can be meant.
-- $5 and $6 are the partitions that are pruned row by row.
WITH old AS MATERIALIZED (
    SELECT h.id
    FROM unnest($5::uuid[], $6::uuid[]) AS p (first, until)
    CROSS JOIN LATERAL (
        SELECT h.id FROM history h
        WHERE h.id >= p.first AND h.id < p.until AND h.id < $1
            AND h.finished_at < CASE WHEN h.outcome IN (2, 4) THEN $3::bigint ELSE $2::bigint END
            AND (SELECT j.own_retention FROM jobs j WHERE j.id = h.job_id) IS NOT TRUE
        ORDER BY h.id LIMIT $4::bigint
    ) AS h
    LIMIT $4::bigint
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
