-- The version that a change collided with.
SELECT version FROM jobs WHERE id = ?1 AND state <> 'DELETED'
