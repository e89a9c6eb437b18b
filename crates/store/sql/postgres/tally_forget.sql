-- Old amounts.
WITH gone AS (
    DELETE FROM tallies WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM tallies WHERE hour < $1 ORDER BY hour LIMIT $2::bigint
    ))
    RETURNING hour
)
SELECT count(*) FROM gone
