-- How many dead letters a tenant has, up to a number.
SELECT count(*) FROM (
    SELECT 1 FROM ends INDEXED BY ends_dead WHERE tenant_id = ?1 AND dead_letter = 1 LIMIT ?2
)
