-- Runs with attempts that were followed by another one, or by another end, newest first.
SELECT DISTINCT run_id FROM attempts WHERE run_id < $1::uuid ORDER BY run_id DESC LIMIT $2::bigint
