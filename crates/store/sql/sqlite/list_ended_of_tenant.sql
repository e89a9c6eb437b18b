-- Ended runs of a tenant with an outcome, newest first; the index has all of it. Nobody asks for the job.
SELECT id, x'00000000000000000000000000000000', origin, outcome FROM history INDEXED BY history_tenant
WHERE id >= ?1 AND id < ?2 AND tenant_id = ?3 AND outcome = ?4
ORDER BY id DESC
