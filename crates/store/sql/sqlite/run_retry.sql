-- The run is due again, without its holder, unless somebody asked for its end.
UPDATE runs SET due_at = ?5, attempts = attempts + ?6, lost = lost + ?7, turn = turn + 1, node_id = NULL, fence = NULL
WHERE id = ?1 AND turn = ?2 AND node_id = ?3 AND fence = ?4 AND cancel_code IS NULL
RETURNING job_id, tenant_id
