-- Messages of a tenant that workers have.
SELECT r.id, r.job_id, r.origin, r.due_at, r.wait, 0, NULL
FROM messages AS m INDEXED BY messages_lease_end
CROSS JOIN runs AS r ON r.seq = m.seq
WHERE m.state = 2 AND r.tenant_id = ?1
