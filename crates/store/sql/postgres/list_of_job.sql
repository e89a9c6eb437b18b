-- Runs of a job ($1), newest first and before $3: up to $7 live ones, not before $2, in some states
-- ($5) and of an origin ($6), and up to $4 ended ones, if any outcome ($8) is wanted. Only the
-- index of the job has this order; the two conditions on the job let it begin and stop at the right
-- places.
(
    SELECT 0::smallint AS part, l.id, l.origin, NULL::smallint AS outcome, l.job_id
    FROM (
        SELECT
            r.id, r.origin, r.job_id,
            CASE
                WHEN r.wait = 4 THEN 2
                WHEN r.wait = 7 THEN 3
                WHEN r.wait = 5 AND r.due_at <= c.now
                    THEN CASE WHEN EXISTS (SELECT 1 FROM messages m WHERE m.run_id = r.id AND m.state + 0 = 2) THEN 2 ELSE 1 END
                WHEN r.wait NOT IN (0, 1, 6, 8) OR r.due_at > c.now THEN 0
                WHEN r.wait IN (1, 6, 8) THEN 1
                WHEN ((r.id, r.turn) IN (SELECT unnest(run_ids), unnest(turns) FROM claims)) IS TRUE THEN 2
                ELSE 1
            END AS state
        FROM runs r CROSS JOIN (SELECT clock() AS now OFFSET 0) AS c
        WHERE cardinality($5::smallint[]) > 0 AND r.job_id = $1 AND r.id >= $2 AND r.id < $3
    ) AS l
    WHERE l.state = ANY ($5) AND ($6::smallint IS NULL OR l.origin = $6)
    ORDER BY l.id DESC LIMIT $7::bigint
)
UNION ALL
(
    SELECT 1::smallint AS part, h.id, h.origin, h.outcome, h.job_id FROM history h
    WHERE cardinality($8::smallint[]) > 0 AND h.job_id >= $1 AND (h.job_id, h.id) < ($1, $3::uuid)
    ORDER BY h.job_id DESC, h.id DESC LIMIT $4::bigint
)
