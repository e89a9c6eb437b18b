-- Continues submit_born: one row of the audit for all runs that a user requested together;
-- domain::audit reads the list.
audited AS (
    INSERT INTO audit (tenant_id, at, actor, kind, outcome, details, runs)
    SELECT
        a.tenant_id, (SELECT now FROM clock),
        coalesce((SELECT i.name FROM identities i WHERE i.id = a.requested_by), a.requested_by::text),
        'RUNS_REQUESTED', 'REQUESTED', '', a.runs
    FROM (
        SELECT
            tenant_id, requested_by,
            string_agg(uuid_send(id) || uuid_send(job_id) || int2send(origin), ''::bytea) AS runs
        FROM born
        WHERE requested_by IS NOT NULL AND id <> ALL ((SELECT ids FROM known)::uuid[])
        GROUP BY tenant_id, requested_by
    ) AS a
    RETURNING 1
)
