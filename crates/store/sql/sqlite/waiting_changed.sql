-- Runs that wait for other jobs, a quorum, a place in a pool, their backfill or the end of a pause, by a definition that has changed.
SELECT seq, id, job_id, order_at, wait FROM runs INDEXED BY runs_waiting WHERE job_id = ?1 AND wait IN (2, 3, 6, 8, 9) AND wait <> 0
