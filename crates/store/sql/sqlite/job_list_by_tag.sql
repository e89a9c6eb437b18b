-- Jobs with a tag, by name. The tag of a job that went with its last run may be left.
SELECT jobs.id, jobs.tenant_id, jobs.name, jobs.version, jobs.state, jobs.definition, jobs.next_run, jobs.created_at,
    jobs.updated_at, jobs.owner_id
FROM job_tags CROSS JOIN jobs ON jobs.id = job_tags.job_id
WHERE job_tags.tenant_id = ?1 AND job_tags.name >= ?2 AND job_tags.tag = ?4 AND jobs.state <> 'DELETED'
ORDER BY job_tags.name LIMIT ?3
