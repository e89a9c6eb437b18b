-- Whether a run waits for a quorum.
SELECT EXISTS (SELECT 1 FROM runs WHERE wait = 3)
