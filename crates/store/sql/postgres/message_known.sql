-- Reports that found no lease: those that were sent before, and what came of them; no outcome if the message goes on.
SELECT u.id, h.outcome
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS u (id, fence, queue_id)
JOIN history h ON h.id BETWEEN u.id AND u.id AND h.fence = u.fence AND h.job_id = u.queue_id
UNION ALL
SELECT u.id, NULL
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[]) AS u (id, fence, queue_id)
JOIN runs r ON r.id BETWEEN u.id AND u.id AND r.job_id = u.queue_id
JOIN attempts a ON a.run_id BETWEEN u.id AND u.id AND a.fence = u.fence
