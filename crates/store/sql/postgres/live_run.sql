-- Wait of a live run, and the number of runs before it.
SELECT
    r.wait, r.wait_until, r.cancel_code, r.cancel_text, r.lane,
    CASE WHEN r.wait = 0 THEN (SELECT count(*) FROM (
        SELECT 1 FROM runs a
        WHERE a.tenant_id = r.tenant_id AND a.wait = 0 AND a.place IS NOT DISTINCT FROM r.place
            AND a.lane / 10 = r.lane / 10 AND a.due_at <= clock()
            AND (a.lane > r.lane OR a.lane = r.lane AND (a.due_at, a.id) < (r.due_at, r.id))
            AND a.id NOT IN (SELECT unnest(c.run_ids) FROM claims c)
        LIMIT $2::bigint
    ) AS x) ELSE 0 END AS ahead,
    (SELECT count(*) FROM (
        SELECT 1 FROM runs a
        WHERE a.job_id = r.job_id AND a.wait = 1 AND (a.order_at, a.id) < (r.order_at, r.id) LIMIT $2::bigint
    ) AS x) AS line_ahead
FROM runs r WHERE r.id = $1
