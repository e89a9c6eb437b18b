-- All but the newest $2 runs of one job, $3 at most. With $4, of completed runs that ended before $5, have ids after $6 and
-- are not in the sample: the last four bytes of the ids of the others are below $4. Child runs do not count, and go before
-- their run.
WITH surplus AS MATERIALIZED (
    SELECT h.id FROM history h
    WHERE h.job_id BETWEEN $1 AND $1 AND h.origin NOT IN (6, 8) AND h.id > $6::uuid
        AND (
            $4::bytea IS NULL
            OR h.outcome = 1 AND h.finished_at < $5::bigint AND substring(uuid_send(h.id) FROM 13 FOR 4) >= $4
        )
    ORDER BY h.job_id DESC, h.id DESC LIMIT $3::bigint OFFSET $2::bigint
),
rows AS MATERIALIZED (
    SELECT s.id AS whole, false AS is_whole, h.id
    FROM surplus s
    CROSS JOIN LATERAL (SELECT p.run_id FROM parts p WHERE p.parent_id BETWEEN s.id AND s.id OFFSET 0) AS p
    JOIN history h ON h.id BETWEEN p.run_id AND p.run_id
    UNION ALL
    SELECT s.id, true, s.id FROM surplus s
    ORDER BY whole, is_whole, id LIMIT $3::bigint
),
gone AS (
    DELETE FROM history h USING rows r WHERE h.id BETWEEN r.id AND r.id RETURNING h.id
),
attempt AS (
    DELETE FROM attempts a USING gone g WHERE a.run_id BETWEEN g.id AND g.id
),
output AS (
    DELETE FROM outputs o USING gone g WHERE o.run_id BETWEEN g.id AND g.id
),
effect AS (
    DELETE FROM effects e USING gone g WHERE e.run_id BETWEEN g.id AND g.id
),
acknowledgement AS (
    DELETE FROM acknowledgements a WHERE (a.run_id IN (SELECT id FROM gone)) IS TRUE
)
SELECT count(*) FROM gone
