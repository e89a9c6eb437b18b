-- What runs of a job came to before others depended on it; a look at the latest is enough.
SELECT e.outcome, e.finished_at FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
WHERE r.job_id = ?1 AND r.origin <> 6 AND e.outcome <= 4 ORDER BY r.id DESC LIMIT 1000
