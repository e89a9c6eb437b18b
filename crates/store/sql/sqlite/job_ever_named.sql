-- Jobs of a tenant that have or had a name: the present one first.
SELECT id, tenant_id, name, version, state, definition, next_run, created_at, updated_at, owner_id
FROM jobs WHERE tenant_id = ?1 AND id IN (SELECT job_id FROM job_versions WHERE name = ?2)
ORDER BY name = ?2 AND state <> 'DELETED' DESC, id DESC LIMIT ?3
