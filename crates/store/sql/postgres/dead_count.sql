-- How many dead letters a tenant has, up to a number.
SELECT count(*) FROM (
    SELECT 1 FROM history WHERE tenant_id = $1 AND dead_letter LIMIT $2::bigint
) AS d
