-- What was done to a run, newest first.
SELECT at, actor, kind, outcome, details FROM audit WHERE run_id = $1 ORDER BY place DESC LIMIT $2
