-- The store was restored from a backup.
INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
VALUES (zeroblob(16), ?1, 'punctual restore', 'BACKUP', 'RESTORED', '', x'')
