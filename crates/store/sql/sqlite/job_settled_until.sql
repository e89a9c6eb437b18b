-- The last tick to come (after ?2) about which something was decided already: tried, cancelled or ended. The ids of
-- history are sorted by time, so only what is to come is looked at (after ?3).
SELECT max(
    coalesce((
        SELECT max(scheduled_for) FROM runs
        WHERE job_id = ?1 AND scheduled_for > ?2 AND origin IN (1, 2)
            AND (attempts > 0 OR lost > 0 OR cancel_code IS NOT NULL)), ?2),
    coalesce((
        SELECT max(scheduled_last) FROM history
        WHERE job_id = ?1 AND id > ?3 AND origin IN (1, 2) AND reason IS NOT 'DST_GAP'), ?2))
