-- The one record of a run or of times without a run; the first one counts.
INSERT INTO history (id, job_id, tenant_id, job_version, scheduled_for, scheduled_last, count, shard, due_at, origin, coalesced,
    parameters, outcome, reason, reason_text, dead_letter, attempts, lost, finished_at,
    number, attempt_end, node_id, fence, started_at, message, error, result, rows_affected, details)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
    ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)
ON CONFLICT (id) DO NOTHING
