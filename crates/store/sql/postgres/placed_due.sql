-- Whether a run that asks for something is due soon.
SELECT EXISTS (SELECT 1 FROM runs WHERE wait = 0 AND place IS NOT NULL AND due_at <= clock() + $1::bigint)
