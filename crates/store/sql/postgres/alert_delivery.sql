-- What came of a try: $3 whether it arrived, $4 why not, $5 when to try again.
INSERT INTO deliveries AS d (channel, alert_id, tries, next_try_at, delivered_at, error, begun_at, tried_at)
VALUES ($1, $2, 1, clock() + $5::bigint, CASE WHEN $3::boolean THEN clock() END, $4, clock(), clock())
ON CONFLICT (channel, alert_id) DO UPDATE SET
    tries = d.tries + 1, next_try_at = excluded.next_try_at, delivered_at = excluded.delivered_at, error = excluded.error,
    tried_at = excluded.tried_at
