-- Ended runs that began more than a minute after their time, or never, by when they began: those whose starts are not in
-- the order of their ids. Any other run pays for this index with nothing but the comparison. One that ended while it
-- waited for another attempt stands where it ended; one that never began comes last. No other index begins like this one,
-- so that no planner takes another one for the same question.
CREATE INDEX history_late ON history (
    uuid_send(job_id),
    (coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807)),
    id
) WHERE (started_at - scheduled_for > 60000000) IS NOT FALSE;

-- The list of what ended together is mostly ids, and ids do not get smaller: trying to compress it took 7 % of the time
-- in which runs end.
ALTER TABLE audit ALTER COLUMN runs SET STORAGE EXTERNAL;
