-- The first request of a key, or the first after one that was forgotten or given up.
INSERT INTO requests AS r (tenant_id, key, fingerprint, begun_at) VALUES ($1, $2, $3, clock())
ON CONFLICT (tenant_id, key) DO UPDATE SET
    fingerprint = excluded.fingerprint, begun_at = excluded.begun_at, status = NULL, head = NULL, body = NULL
WHERE r.begun_at < clock() - $4::bigint
    OR r.status IS NULL AND r.begun_at < clock() - $5::bigint AND r.fingerprint = excluded.fingerprint
RETURNING key
