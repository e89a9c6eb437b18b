-- Removes an entry, if it is the one that was meant; a tenant only when nothing is left in it.
DELETE FROM identities
WHERE id = ?1 AND (?2 IS NULL OR version = ?2)
    AND NOT (kind = 1 AND (
        EXISTS (SELECT 1 FROM identities o WHERE o.tenant_id = ?1)
        OR EXISTS (SELECT 1 FROM jobs j WHERE j.tenant_id = ?1 AND j.state <> 'DELETED')
    ))
