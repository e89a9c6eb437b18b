-- What a channel tried to deliver, newest first.
SELECT a.at, a.kind, a.tenant_id, a.job_id, a.run_id, a.text, d.alert_id,
    d.tries, d.begun_at, d.tried_at, d.next_try_at, d.delivered_at, d.error
FROM deliveries d JOIN alerts a ON a.id = d.alert_id
WHERE d.channel = $1 AND (d.begun_at, d.alert_id) < ($2::bigint, $3::uuid)
ORDER BY d.begun_at DESC, d.alert_id DESC
LIMIT $4::bigint
