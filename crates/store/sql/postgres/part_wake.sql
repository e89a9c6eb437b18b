-- Runs whose parts have all ended go on: those among $1, and those that a run among $1 is a part of. Under the gate.
WITH woken AS (
    UPDATE runs r SET wait = 0, wait_until = NULL
    WHERE r.id IN (
            SELECT unnest($1::uuid[])
            UNION
            SELECT parent_id FROM parts WHERE run_id = ANY ($1::uuid[])
        )
        AND r.wait + 0 = 4
        AND NOT EXISTS (SELECT 1 FROM parts p JOIN runs c ON c.id = p.run_id WHERE p.parent_id = r.id)
    RETURNING r.id
)
SELECT count(*) FROM woken
