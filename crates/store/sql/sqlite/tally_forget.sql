-- Old amounts.
DELETE FROM tallies WHERE (tenant_id, job_id, hour, measure, class) IN (
    SELECT tenant_id, job_id, hour, measure, class FROM tallies WHERE hour < ?1 ORDER BY hour LIMIT ?2
)
