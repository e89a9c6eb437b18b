-- How much of each tenant is held, when the database is opened.
SELECT tenant_id, count(*) FROM runs WHERE node_id IS NOT NULL GROUP BY tenant_id
