-- Returned ticks are planned again when the job goes on.
UPDATE jobs SET next_run = min(coalesce(next_run, ?2), ?2) WHERE id = ?1
