-- Short outputs of attempts, if those are on record.
INSERT INTO outputs (run_id, number, frames)
SELECT u.run_id, u.number, u.frames
FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bytea[]) AS u (run_id, fence, number, frames)
WHERE EXISTS (SELECT 1 FROM history h WHERE h.id BETWEEN u.run_id AND u.run_id AND h.fence = u.fence)
    OR EXISTS (SELECT 1 FROM attempts a WHERE a.run_id BETWEEN u.run_id AND u.run_id AND a.fence = u.fence)
ON CONFLICT (run_id, number) DO NOTHING
