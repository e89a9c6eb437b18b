-- The jobs that one depends on.
SELECT depends_on FROM upstream WHERE job_id = ?1
