-- Who created jobs, also deleted ones.
SELECT id, owner_id FROM jobs WHERE id = ANY ($1::uuid[])
