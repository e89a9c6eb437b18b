-- All but the newest ended runs of one job. What a run was divided into does not count.
SELECT r.seq, r.id FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
WHERE r.job_id = ?1 AND r.origin <> 6 ORDER BY r.id DESC LIMIT ?3 OFFSET ?2
