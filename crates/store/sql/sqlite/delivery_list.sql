-- What a channel tried to deliver, newest first.
SELECT alerts.at, alerts.kind, alerts.tenant_id, alerts.job_id, alerts.run_id, alerts.text, deliveries.alert_id,
    deliveries.tries, deliveries.begun_at, deliveries.tried_at, deliveries.next_try_at, deliveries.delivered_at, deliveries.error
FROM deliveries JOIN alerts ON alerts.id = deliveries.alert_id
WHERE deliveries.channel = ?1 AND (deliveries.begun_at, deliveries.alert_id) < (?2, ?3)
ORDER BY deliveries.begun_at DESC, deliveries.alert_id DESC
LIMIT ?4
