-- Moves the runs of jobs that this transaction has written to the placement and the kind of slot
-- ($3) of the new definition. Runs under the gate, with the exclusive lock of waits. Runs of a
-- shard stay in its lane. A lane is ten times its kind of slot, plus a priority. Runs that do not
-- wait were locked before the gate; if one was recorded since and is locked by another transaction,
-- this one rolls back and is repeated.
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
