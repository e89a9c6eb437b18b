-- The leases of messages end later, if they are still the same ones.
UPDATE messages m SET at = clock() + $3::bigint
FROM unnest($1::uuid[], $2::bigint[]) AS u (id, fence)
WHERE m.run_id BETWEEN u.id AND u.id AND m.state + 0 = 2 AND m.fence = u.fence AND m.queue_id = $4
RETURNING m.run_id, m.fence, m.at, (SELECT r.cancel_code IS NOT NULL FROM runs r WHERE r.id = m.run_id)
