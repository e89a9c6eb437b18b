-- Numbers and hashes of rows, if the chain ends where it was seen to. Whoever saw its end after the rows may be about to
-- seal what another one has sealed in between.
WITH moved AS (
    UPDATE audit_chains SET head_number = $3, head_hash = $4
    WHERE tenant_id = $1 AND head_number = $2
        AND NOT EXISTS (SELECT 1 FROM audit WHERE place = ANY ($5::bigint[]) AND number IS NOT NULL)
    RETURNING 1
),
sealed AS (
    UPDATE audit a SET number = u.number, hash = u.hash
    FROM unnest($5::bigint[], $6::bigint[], $7::bytea[]) AS u (place, number, hash)
    WHERE a.place = u.place AND a.number IS NULL AND a.tenant_id = $1 AND EXISTS (SELECT 1 FROM moved)
)
SELECT count(*) > 0 FROM moved
