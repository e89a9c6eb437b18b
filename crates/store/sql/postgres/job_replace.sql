-- The runs of jobs that this very transaction has written ask for the place and the kind of slot ($3) that their jobs ask for
-- now. Under the gate. What belongs to a shard stays there. A lane is ten times its kind of slot, and a priority.
UPDATE runs r
SET
    place = CASE WHEN r.shard = '' THEN nullif(string_to_array(u.place, E'\n'), '{}') ELSE r.place END,
    lane = u.slot * 10 + r.lane % 10
FROM unnest($1::uuid[], $2::text[], $3::smallint[]) AS u (job_id, place, slot)
JOIN jobs j ON j.id BETWEEN u.job_id AND u.job_id AND j.xmin = pg_current_xact_id()::xid
WHERE r.job_id BETWEEN j.id AND j.id AND (
    r.lane / 10 <> u.slot OR r.shard = '' AND r.place IS DISTINCT FROM nullif(string_to_array(u.place, E'\n'), '{}')
)
