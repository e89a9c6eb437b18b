-- A run that was recorded by this very transaction waits for its parts.
UPDATE runs r SET wait = 4 WHERE r.id = $1 AND r.xmin = pg_current_xact_id()::xid
    AND EXISTS (SELECT 1 FROM parts p WHERE p.parent_id = r.id)
