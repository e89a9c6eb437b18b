-- A secret that nobody wants any more, if it is the one that was seen.
DELETE FROM secrets WHERE tenant_id = ?1 AND job_id = ?2 AND name = ?3 AND version = ?4
