-- The last future tick (after ?2) that was attempted, cancelled or ended already. Ids are sorted by
-- time, so of ended runs only future ones are read (after ?3).
SELECT max(
    coalesce((
        SELECT max(r.scheduled_for) FROM live AS l CROSS JOIN runs AS r ON r.seq = l.seq
        WHERE l.job_id = ?1 AND r.scheduled_for > ?2 AND r.origin IN (1, 2)
            AND (r.attempts > 0 OR r.lost > 0 OR r.cancel_code IS NOT NULL)), ?2),
    coalesce((
        SELECT max(coalesce(r.scheduled_last, r.scheduled_for)) FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
        WHERE r.job_id = ?1 AND r.id > ?3 AND r.origin IN (1, 2) AND e.reason IS NOT 'DST_GAP'), ?2))
