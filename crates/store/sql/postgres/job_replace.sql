-- The runs of jobs that this very transaction has written ask for what their jobs ask for now. Under the gate.
-- What belongs to a shard stays there.
UPDATE runs r SET place = nullif(string_to_array(u.place, E'\n'), '{}')
FROM unnest($1::uuid[], $2::text[]) AS u (job_id, place)
JOIN jobs j ON j.id BETWEEN u.job_id AND u.job_id AND j.xmin = pg_current_xact_id()::xid
WHERE r.job_id BETWEEN j.id AND j.id AND r.shard = '' AND r.place IS DISTINCT FROM nullif(string_to_array(u.place, E'\n'), '{}')
