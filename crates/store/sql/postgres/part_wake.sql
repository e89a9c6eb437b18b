-- Runs whose parts have all ended go on: those among $1, and those that a run among $1 is a part of. Under the gate. A part that
-- has not ended is looked for among the last parts, then among the first, then among all: they mostly end in the order of their
-- numbers or in none, and then the end of a part costs the same however many there are.
WITH woken AS (
    UPDATE runs r SET wait = 0, wait_until = NULL
    WHERE r.id IN (
            SELECT unnest($1::uuid[])
            UNION
            SELECT parent_id FROM parts WHERE run_id = ANY ($1::uuid[])
        )
        AND r.wait + 0 = 4
        AND coalesce(
            (
                SELECT true FROM (SELECT p.run_id FROM parts p WHERE p.parent_id = r.id ORDER BY p.number DESC LIMIT 50) AS p
                WHERE (SELECT true FROM runs c WHERE c.id = p.run_id) LIMIT 1
            ),
            (
                SELECT true FROM (SELECT p.run_id FROM parts p WHERE p.parent_id = r.id ORDER BY p.number LIMIT 50) AS p
                WHERE (SELECT true FROM runs c WHERE c.id = p.run_id) LIMIT 1
            ),
            (SELECT true FROM parts p WHERE p.parent_id = r.id AND (SELECT true FROM runs c WHERE c.id = p.run_id) LIMIT 1)
        ) IS NULL
    RETURNING r.id
)
SELECT count(*) FROM woken
