-- Finishes that found no grant: those of $1 and $2 that were sent before, and what came of them.
SELECT u.fence, h.outcome
FROM unnest($1::uuid[], $2::bigint[]) AS u (run_id, fence)
JOIN history h ON h.id BETWEEN u.run_id AND u.run_id AND h.fence = u.fence
