-- Runs that wait for a place in their pool and were called to take it.
SELECT r.seq, r.id, r.job_id, r.order_at, r.wait
FROM pool_runs AS p JOIN runs AS r ON r.id = p.run_id
WHERE p.turn IS NULL AND p.called_at IS NOT NULL AND r.wait = 6
