-- Who asked for a run.
SELECT requested_by FROM runs WHERE id = ?1
