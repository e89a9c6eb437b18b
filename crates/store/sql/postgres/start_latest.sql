-- The same by when they began, latest first. The inner order is that of the only index that should be walked.
SELECT h.id, h.started_at
FROM (
    SELECT id, started_at
    FROM history
    WHERE (job_id, id) >= ($1, $7::uuid) AND (job_id, id) < ($1, $8::uuid)
        AND (started_at, id) < ($2::bigint, $3::uuid)
        AND (outcome = ANY ($5::smallint[]) OR $6::boolean AND attempts + lost > 1)
    ORDER BY job_id DESC, id DESC
    OFFSET 0
) AS h
ORDER BY h.started_at DESC, h.id DESC
LIMIT $4::bigint
