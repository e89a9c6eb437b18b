-- Current definition of the job of a run, and the nominal time of the run.
SELECT jobs.definition, runs.scheduled_for FROM runs CROSS JOIN jobs ON jobs.id = runs.job_id WHERE runs.seq = ?1
