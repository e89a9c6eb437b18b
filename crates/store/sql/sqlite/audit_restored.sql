-- The store was restored from a backup, by a user of the operating system.
INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
VALUES (zeroblob(16), ?1, ?2, 'BACKUP', 'RESTORED', ?3, x'')
