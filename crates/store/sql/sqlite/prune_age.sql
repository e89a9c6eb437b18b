-- History that is old enough, oldest first; failures are kept longer, and some jobs have a rule of their own.
DELETE FROM history WHERE id IN (
    SELECT id FROM history
    WHERE id < ?1
        AND finished_at < CASE WHEN outcome IN (2, 4) THEN ?3 ELSE ?2 END
        AND job_id NOT IN (SELECT jobs.id FROM jobs WHERE own_retention AND state <> 'DELETED')
    ORDER BY id LIMIT ?4
)
RETURNING id
