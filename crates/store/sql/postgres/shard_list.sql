-- The shards of a tenant ($1), or of all, and who owns them.
SELECT o.id, o.tenant_id, o.kind, o.name, o.body, o.version, o.created_at, o.changed_at, s.node_id, coalesce(s.fence, 0), s.since
FROM objects o LEFT JOIN shard_owners s ON s.shard_id = o.id
WHERE o.kind = 'SHARD' AND ($1::uuid IS NULL OR o.tenant_id = $1)
ORDER BY o.tenant_id, o.name
