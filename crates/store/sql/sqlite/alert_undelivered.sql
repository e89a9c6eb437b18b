-- What a channel should try now.
SELECT alerts.at, alerts.kind, alerts.tenant_id, alerts.job_id, alerts.run_id, alerts.text, coalesce(deliveries.tries, 0)
FROM alerts LEFT JOIN deliveries ON deliveries.channel = ?1 AND deliveries.alert_id = alerts.id
WHERE alerts.at >= ?2 AND (deliveries.alert_id IS NULL OR deliveries.next_try_at <= ?3)
ORDER BY alerts.at
LIMIT ?4
