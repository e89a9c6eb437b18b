-- Alerts of ends that this transaction has recorded: a run may have ended otherwise.
INSERT INTO alerts (id, at, kind, tenant_id, job_id, run_id, text, settled)
SELECT u.id, h.finished_at, u.kind, h.tenant_id, h.job_id, h.id, u.text, NOT h.dead_letter
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::smallint[]) AS u (id, kind, run_id, text, outcome)
JOIN history h ON h.id BETWEEN u.run_id AND u.run_id AND h.xmin = pg_current_xact_id()::xid
WHERE h.outcome = u.outcome
ON CONFLICT (id) DO NOTHING
