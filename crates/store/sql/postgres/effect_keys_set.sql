-- Attempts that are about to begin may record their effects: runs $1 under the claim generations $2
-- with the secrets $3, if they still have these generations. Keys of ended runs are deleted.
WITH old AS (
    DELETE FROM effect_keys WHERE run_id IN (
        SELECT k.run_id FROM effect_keys k WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = k.run_id) LIMIT 100
    )
)
INSERT INTO effect_keys (run_id, generation, hash)
SELECT u.run_id, u.turn, sha256(convert_to(u.secret, 'UTF8'))
FROM unnest($1::uuid[], $2::integer[], $3::text[]) AS u (run_id, turn, secret)
JOIN runs r ON r.id = u.run_id AND r.turn = u.turn
ON CONFLICT (run_id) DO UPDATE SET generation = excluded.generation, hash = excluded.hash
RETURNING run_id
