-- Runs whose time for a decision is over, and their jobs. $2 the waits that only a decision ends.
SELECT id, job_id FROM runs WHERE wait_until <= clock() AND wait + 0 = ANY ($2::smallint[]) ORDER BY id LIMIT $1::bigint
