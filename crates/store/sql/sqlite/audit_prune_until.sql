-- The last row of a chain's old beginning but one: the youngest of the old rows stays, and proves
-- the age of those that go.
SELECT max(number) FROM (
    SELECT number FROM audit
    WHERE tenant_id = ?1 AND number IS NOT NULL
        AND number < coalesce(
            (SELECT min(number) FROM audit WHERE tenant_id = ?1 AND number IS NOT NULL AND at >= ?2),
            (SELECT max(number) + 1 FROM audit WHERE tenant_id = ?1 AND number IS NOT NULL)
        ) - 1
    ORDER BY number LIMIT ?3
)
