-- What a channel should try now; what is older than a day is not news.
SELECT a.at, a.kind, a.tenant_id, a.job_id, a.run_id, a.text, coalesce(d.tries, 0) AS tries
FROM alerts a LEFT JOIN deliveries d ON d.channel = $1 AND d.alert_id = a.id
WHERE a.at >= clock() - 86400000000 AND (d.alert_id IS NULL OR d.next_try_at <= clock())
ORDER BY a.at
LIMIT $2::bigint
