-- What the job of a run is now, and which time the run stands for.
SELECT jobs.definition, runs.scheduled_for FROM runs CROSS JOIN jobs ON jobs.id = runs.job_id WHERE runs.seq = ?1
