-- A node begins, or begins again after its lease ran out.
INSERT INTO nodes (id, name, lease_until, buried) VALUES (?1, ?2, ?3, 0)
ON CONFLICT (id) DO UPDATE SET name = ?2, lease_until = ?3 WHERE NOT buried
