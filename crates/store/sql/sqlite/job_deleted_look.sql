-- Deleted jobs in the order of their ids, and whether nothing is left of them but their record: no runs, and deleted
-- before ?2.
SELECT id, updated_at < ?2 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.job_id = jobs.id)
FROM jobs INDEXED BY jobs_deleted WHERE state = 'DELETED' AND id > ?1
ORDER BY id LIMIT ?3
