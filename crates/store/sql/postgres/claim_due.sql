-- Whether a run that any node may claim is due within $2, held or not; and the time. Continues
-- lanes.
SELECT EXISTS (SELECT 1 FROM lanes WHERE first <= clock() + $2::bigint) AS due, clock() AS now
