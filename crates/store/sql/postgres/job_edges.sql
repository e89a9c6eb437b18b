-- The edges of jobs that this transaction has written. $1 the jobs, $2 and $3 their edges.
WITH written AS MATERIALIZED (
    SELECT id FROM jobs WHERE id = ANY ($1::uuid[]) AND xmin = pg_current_xact_id()::xid
),
old AS (
    DELETE FROM upstream u USING written w
    WHERE u.job_id BETWEEN w.id AND w.id
        AND ((u.job_id, u.depends_on) IN (SELECT * FROM unnest($2::uuid[], $3::uuid[]))) IS NOT TRUE
)
INSERT INTO upstream (job_id, depends_on)
SELECT e.job_id, e.depends_on FROM unnest($2::uuid[], $3::uuid[]) AS e (job_id, depends_on)
WHERE (e.job_id IN (SELECT id FROM written)) IS TRUE
ON CONFLICT DO NOTHING
