-- The state of a queue.
SELECT state FROM jobs WHERE id = ?1
