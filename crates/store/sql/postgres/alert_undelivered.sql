-- What a channel should try now, of all tenants or of one, of all kinds or of some; what is older than a day is not news.
SELECT a.at, a.kind, a.tenant_id, a.job_id, a.run_id, a.text, coalesce(d.tries, 0) AS tries
FROM alerts a LEFT JOIN deliveries d ON d.channel = $1 AND d.alert_id = a.id
WHERE a.at >= greatest(clock() - 86400000000, $3::bigint) AND (d.alert_id IS NULL OR d.next_try_at <= clock())
    AND ($4::uuid IS NULL OR a.tenant_id = $4)
    AND ($5::text[] IS NULL OR a.kind = ANY ($5))
ORDER BY a.at
LIMIT $2::bigint
