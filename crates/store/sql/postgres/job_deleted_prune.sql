-- Removes deleted jobs of which nothing is left but their record, among the next ones by id: no runs, no history, and
-- deleted more than $2 microseconds ago.
WITH looked AS MATERIALIZED (
    SELECT id, updated_at FROM jobs WHERE state = 'DELETED' AND id > $1 ORDER BY id LIMIT $3::bigint
),
removed AS (
    DELETE FROM jobs j USING looked l
    WHERE j.id BETWEEN l.id AND l.id AND l.updated_at < clock() - $2::bigint
        AND NOT EXISTS (SELECT 1 FROM history h WHERE h.job_id BETWEEN l.id AND l.id)
        AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.job_id = l.id)
    RETURNING j.id
),
forgotten AS (
    DELETE FROM job_versions v USING removed r WHERE v.job_id BETWEEN r.id AND r.id
)
SELECT (SELECT count(*) FROM removed), (SELECT id FROM looked ORDER BY id DESC LIMIT 1)
