-- Other runs of a job whose time has come and that do not wait for others of the job, counted up to ?4. Only of the
-- origin ?5, if there is one.
SELECT count(*) FROM (
    SELECT 1 FROM live AS l CROSS JOIN runs AS r ON r.seq = l.seq
    WHERE l.job_id = ?1 AND l.order_at <= ?2 AND l.id <> ?3 AND r.wait IN (0, 4, 6, 7) AND r.origin NOT IN (6, 8)
        AND r.origin = coalesce(?5, r.origin)
    LIMIT ?4
)
