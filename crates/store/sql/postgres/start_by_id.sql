-- Ended runs of a job ($1) that began before a place ($2, $3), newest first, with ids from $7 up to but without $8.
-- $5 and $6: how they ended, and whether several attempts will do as well.
SELECT id, started_at
FROM history
WHERE (job_id, id) >= ($1, $7::uuid) AND (job_id, id) < ($1, $8::uuid)
    AND (started_at, id) < ($2::bigint, $3::uuid)
    AND (outcome = ANY ($5::smallint[]) OR $6::boolean AND attempts + lost > 1)
ORDER BY job_id DESC, id DESC
LIMIT $4::bigint
