-- Ended runs of a job ($1) that began late or never, latest first and before a place ($2, $3). $5 and $6: how they ended,
-- and whether several attempts will do as well.
SELECT l.id, l.began
FROM late l
WHERE l.job_id >= $1 AND (l.job_id, l.began, l.id) < ($1, $2::bigint, $3::uuid)
    AND (
        SELECT h.outcome = ANY ($5::smallint[]) OR $6::boolean AND h.attempts + h.lost > 1 FROM history h WHERE h.id = l.id
    )
ORDER BY l.job_id DESC, l.began DESC, l.id DESC
LIMIT $4::bigint
