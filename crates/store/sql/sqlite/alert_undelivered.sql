-- What a channel should try now: of all tenants or of one, of all kinds or of some.
SELECT alerts.at, alerts.kind, alerts.tenant_id, alerts.job_id, alerts.run_id, alerts.text, coalesce(deliveries.tries, 0)
FROM alerts LEFT JOIN deliveries ON deliveries.channel = ?1 AND deliveries.alert_id = alerts.id
WHERE alerts.at >= ?2 AND (deliveries.alert_id IS NULL OR deliveries.next_try_at <= ?3)
    AND (?5 IS NULL OR alerts.tenant_id = ?5)
    AND (?6 IS NULL OR alerts.kind IN (SELECT value FROM json_each(?6)))
ORDER BY alerts.at
LIMIT ?4
