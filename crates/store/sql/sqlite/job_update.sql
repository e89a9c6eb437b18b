-- A changed job, if it is the version that the change is based on, and if no due time is left
-- unplanned when its schedule ends (?12 is now; none when the schedule goes on). The next time
-- moves only with the schedule.
UPDATE jobs
SET name = ?3, version = ?4, state = ?5, after_dependencies = ?6, own_retention = ?7, definition = ?8,
    next_run = CASE WHEN ?11 THEN ?9 ELSE next_run END, updated_at = ?10,
    -- Waits under the claims so far may have missed the change.
    changed_fence = ?13
WHERE id = ?1 AND version = ?2 AND state <> 'DELETED'
    AND (?12 IS NULL OR state <> 'ENABLED' OR next_run IS NULL OR next_run > ?12)
