-- What a job is now.
SELECT definition FROM jobs WHERE id = ?1
