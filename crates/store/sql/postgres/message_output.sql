-- Outputs of attempts at messages, if those are on record.
INSERT INTO outputs (run_id, number, frames)
SELECT u.run_id, a.number, u.frames
FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS u (run_id, fence, frames)
CROSS JOIN LATERAL (
    SELECT h.number FROM history h WHERE h.id BETWEEN u.run_id AND u.run_id AND h.fence = u.fence AND h.number IS NOT NULL
    UNION ALL
    SELECT a.number FROM attempts a WHERE a.run_id BETWEEN u.run_id AND u.run_id AND a.fence = u.fence
) AS a
ON CONFLICT (run_id, number) DO NOTHING
