-- The first request of a key, or the first after one that was forgotten or given up.
INSERT INTO requests (tenant_id, key, fingerprint, begun_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (tenant_id, key) DO UPDATE SET fingerprint = ?3, begun_at = ?4, status = NULL, head = NULL, body = NULL
WHERE begun_at < ?5 OR status IS NULL AND begun_at < ?6 AND fingerprint = ?3
