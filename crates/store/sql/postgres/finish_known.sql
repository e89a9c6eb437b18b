-- Outcomes of finishes without a valid claim that were sent before: those of runs $1 with marks $2.
SELECT u.mark, h.outcome
FROM unnest($1::uuid[], $2::bigint[]) AS u (run_id, mark)
JOIN history h ON h.id BETWEEN u.run_id AND u.run_id AND h.fence = u.mark
