-- Runs of a lane that can be claimed before another one.
SELECT count(*) FROM (
    SELECT 1 FROM queue WHERE tenant_id = ?1 AND lane = ?2 AND (due_at, seq) < (?3, ?4) LIMIT ?5
)
