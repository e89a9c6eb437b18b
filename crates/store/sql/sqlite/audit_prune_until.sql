-- The last row of a chain's old beginning.
SELECT max(number) FROM (
    SELECT number FROM audit
    WHERE tenant_id = ?1 AND number IS NOT NULL
        AND number < coalesce(
            (SELECT min(number) FROM audit WHERE tenant_id = ?1 AND number IS NOT NULL AND at >= ?2), 9223372036854775807
        )
    ORDER BY number LIMIT ?3
)
