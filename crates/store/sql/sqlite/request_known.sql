-- How a request of a key stands.
SELECT fingerprint, status, head, body FROM requests WHERE tenant_id = ?1 AND key = ?2
