-- Jobs with a tag, by name. The tag of a job that went with its last run may be left.
SELECT j.id, j.tenant_id, j.name, j.version, j.state, j.definition, j.next_run, j.created_at, j.updated_at, j.owner_id
FROM job_tags t
CROSS JOIN LATERAL (SELECT * FROM jobs WHERE id = t.job_id AND state || '' <> 'DELETED' OFFSET 0) AS j
WHERE t.tenant_id = $1 AND t.tag = $4 AND t.name >= $2
ORDER BY t.name LIMIT $3::bigint
