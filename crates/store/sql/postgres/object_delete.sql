-- An object that nobody wants any more, if it is the one that was seen, and what was recorded under its id.
WITH gone AS (
    DELETE FROM objects WHERE id = $1 AND tenant_id = $2 AND version = $3 RETURNING id
),
forgotten AS (
    DELETE FROM deliveries USING gone WHERE channel = gone.id::text
)
SELECT id FROM gone
