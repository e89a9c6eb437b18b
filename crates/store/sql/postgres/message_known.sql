-- Outcomes of reports without a valid lease that were sent before; no outcome if the message goes
-- on. Of each: $1 id, $2 the token of its lease, $3 its queue, $4 how the attempt ended, if one was
-- made. A report whose attempt ended otherwise comes too late.
SELECT u.id, h.outcome
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::smallint[]) AS u (id, fence, queue_id, attempt_end)
JOIN history h ON h.id BETWEEN u.id AND u.id AND h.fence = u.fence AND h.job_id = u.queue_id
    AND h.attempt_end IS NOT DISTINCT FROM u.attempt_end
UNION ALL
SELECT u.id, NULL
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::smallint[]) AS u (id, fence, queue_id, attempt_end)
JOIN runs r ON r.id BETWEEN u.id AND u.id AND r.job_id = u.queue_id
JOIN attempts a ON a.run_id BETWEEN u.id AND u.id AND a.fence = u.fence AND a.attempt_end = u.attempt_end
UNION ALL
SELECT u.id, NULL
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::smallint[]) AS u (id, fence, queue_id, attempt_end)
JOIN messages m ON m.run_id BETWEEN u.id AND u.id AND m.queue_id = u.queue_id
WHERE m.released_fence = u.fence AND u.attempt_end IS NULL
