-- Whether a job is planned, deleted ones included.
SELECT state, name FROM jobs WHERE id = ?1
