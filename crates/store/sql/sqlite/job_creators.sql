-- Who created a job, also one that is deleted.
SELECT owner_id FROM jobs WHERE id = ?1
