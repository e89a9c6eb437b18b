-- More of something.
INSERT INTO tallies (tenant_id, job_id, hour, measure, class, amount) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (tenant_id, job_id, hour, measure, class) DO UPDATE SET amount = amount + excluded.amount
