-- Ended runs of a job ($1) that began late or never, latest first and before a place ($2, $3). $5 and $6: how they ended,
-- and whether several attempts will do as well. The words are those of the index history_late.
SELECT id, coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807) AS began
FROM history
WHERE (started_at - scheduled_for > 60000000) IS NOT FALSE
    AND uuid_send(job_id) >= uuid_send($1)
    AND (
        uuid_send(job_id), coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807), id
    ) < (uuid_send($1), $2::bigint, $3::uuid)
    AND (outcome = ANY ($5::smallint[]) OR $6::boolean AND attempts + lost > 1)
ORDER BY uuid_send(job_id) DESC, began DESC, id DESC
LIMIT $4::bigint
