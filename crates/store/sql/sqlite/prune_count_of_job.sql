-- All but the newest ended runs of one job.
SELECT r.seq, r.id FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
WHERE r.job_id = ?1 ORDER BY r.id DESC LIMIT ?3 OFFSET ?2
