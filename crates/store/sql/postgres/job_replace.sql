-- The runs of jobs that this very transaction has written ask for the place and the kind of slot ($3) that their jobs ask for
-- now. Under the gate, with the lock of waits alone. What belongs to a shard stays there. A lane is ten times its kind of
-- slot, and a priority. Runs that do not wait were locked before the gate; where one was recorded since and is locked by
-- another transaction, this one gives way and begins again.
WITH moved AS MATERIALIZED (
    SELECT r.id, u.place, u.slot
    FROM unnest($1::uuid[], $2::text[], $3::smallint[]) AS u (job_id, place, slot)
    JOIN jobs j ON j.id BETWEEN u.job_id AND u.job_id AND j.xmin = pg_current_xact_id()::xid
    JOIN runs r ON r.job_id BETWEEN j.id AND j.id
    WHERE r.lane / 10 <> u.slot OR r.shard = '' AND r.place IS DISTINCT FROM nullif(string_to_array(u.place, E'\n'), '{}')
    FOR UPDATE OF r NOWAIT
)
UPDATE runs r
SET
    place = CASE WHEN r.shard = '' THEN nullif(string_to_array(m.place, E'\n'), '{}') ELSE r.place END,
    lane = m.slot * 10 + r.lane % 10
FROM moved m
WHERE r.id BETWEEN m.id AND m.id
