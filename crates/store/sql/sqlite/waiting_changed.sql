-- Runs that wait for other jobs, a quorum or a place in a pool, by a definition that has changed.
SELECT seq, id, job_id, order_at, wait FROM runs INDEXED BY runs_waiting WHERE job_id = ?1 AND wait IN (2, 3, 6, 8) AND wait <> 0
