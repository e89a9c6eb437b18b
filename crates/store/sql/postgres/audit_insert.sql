-- Who did what.
INSERT INTO audit (tenant_id, at, actor, kind, job_id, run_id, outcome, details, runs)
SELECT u.tenant_id, clock(), u.actor, u.kind, u.job_id, u.run_id, u.outcome, u.details, ''
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::uuid[], $6::text[], $7::text[])
    AS u (tenant_id, actor, kind, job_id, run_id, outcome, details)
