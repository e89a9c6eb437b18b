-- Whether a job is planned, deleted ones included.
SELECT state, name, version FROM jobs WHERE id = ?1
