-- Requests that nobody sends again.
DELETE FROM requests WHERE (tenant_id, key) IN (
    SELECT tenant_id, key FROM requests WHERE begun_at < ?1 ORDER BY begun_at LIMIT ?2
)
