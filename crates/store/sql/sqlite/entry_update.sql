-- A changed entry, if it is the one that the change is based on and its name is free.
UPDATE identities SET name = ?4, expires_at = ?6, body = ?7, version = version + 1, updated_at = ?8
WHERE id = ?1 AND kind = ?2 AND tenant_id = ?3 AND owner_id IS ?5 AND version = ?9
    AND NOT EXISTS (SELECT 1 FROM identities o WHERE o.tenant_id = ?3 AND o.kind = ?2 AND o.name = ?4 AND o.id <> ?1)
