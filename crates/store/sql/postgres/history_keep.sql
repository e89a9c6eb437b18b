-- Copies the rows of an old partition that have to stay: runs that ended later than $1, failures
-- that ended later than $2, and runs of jobs with a retention of their own; $3 rows at most. The
-- indexes find them, so the cost depends on the rows that stay and not on those that are dropped. A
-- row is found twice if it is a failure of such a job.
INSERT INTO history_new
WITH RECURSIVE tenants AS (
    (SELECT tenant_id FROM history_old ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT n.tenant_id
    FROM tenants t
    CROSS JOIN LATERAL (
        SELECT o.tenant_id FROM history_old o WHERE o.tenant_id > t.tenant_id ORDER BY o.tenant_id LIMIT 1
    ) AS n
),
kept AS (
    SELECT o.id FROM history_old o WHERE o.finished_at >= $1::bigint AND o.outcome NOT IN (2, 4)
    UNION ALL
    SELECT o.id
    FROM tenants t
    CROSS JOIN (VALUES (2::smallint), (4::smallint)) AS f (outcome)
    CROSS JOIN LATERAL (
        SELECT o.id, o.finished_at FROM history_old o WHERE o.tenant_id = t.tenant_id AND o.outcome = f.outcome OFFSET 0
    ) AS o
    WHERE o.finished_at >= $2::bigint
    UNION ALL
    SELECT o.id
    FROM jobs j
    CROSS JOIN LATERAL (SELECT o.id FROM history_old o WHERE o.job_id = j.id OFFSET 0) AS o
    WHERE j.own_retention
)
SELECT o.*
FROM (SELECT DISTINCT id FROM (SELECT id FROM kept LIMIT 2 * $3::bigint) AS twice LIMIT $3::bigint) AS k
JOIN history_old o ON o.id BETWEEN k.id AND k.id
