-- Whether a run that any node may have is due within $2, held or not; and the time. Goes on behind lanes.
SELECT EXISTS (SELECT 1 FROM lanes WHERE first <= clock() + $2::bigint) AS due, clock() AS now
