-- Locks the runs that a change of their jobs moves or takes away and that do not wait, by id, before the lock of waits and
-- before the gate. $1 the jobs, $2 their places, $3 their kinds of slot, $4 whether their ticks are taken away. The lock of a
-- run that began to wait meanwhile cannot be kept: the transaction gives way and begins again.
WITH found AS MATERIALIZED (
    SELECT r.id
    FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::boolean[]) AS u (job_id, place, slot, unprepared)
    JOIN runs r ON r.job_id BETWEEN u.job_id AND u.job_id
    WHERE r.wait + 0 = 0 AND (
        r.lane / 10 <> u.slot OR r.shard = '' AND r.place IS DISTINCT FROM nullif(string_to_array(u.place, E'\n'), '{}')
        OR u.unprepared AND r.scheduled_for > clock() AND r.origin IN (1, 2)
            AND r.attempts = 0 AND r.lost = 0 AND r.cancel_code IS NULL
    )
),
locked AS MATERIALIZED (
    SELECT r.wait FROM found f JOIN runs r ON r.id BETWEEN f.id AND f.id ORDER BY r.id FOR UPDATE OF r
)
SELECT give_way() FROM locked WHERE wait <> 0 LIMIT 1
