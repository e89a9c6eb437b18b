-- What came of a try.
INSERT INTO deliveries (channel, alert_id, tries, next_try_at, delivered_at, error, begun_at, tried_at)
VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?6)
ON CONFLICT (channel, alert_id)
DO UPDATE SET tries = tries + 1, next_try_at = ?3, delivered_at = ?4, error = ?5, tried_at = ?6
