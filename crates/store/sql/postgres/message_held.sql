-- Leases that have not ended.
SELECT m.run_id, r.attempts + r.lost AS attempts
FROM unnest($1::uuid[], $2::bigint[]) AS u (id, fence)
JOIN messages m ON m.run_id BETWEEN u.id AND u.id AND m.state + 0 = 2 AND m.fence = u.fence AND m.queue_id = $3
JOIN runs r ON r.id BETWEEN m.run_id AND m.run_id
