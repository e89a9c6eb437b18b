-- Of runs that began more than a minute after their time, or never: whose they are. They have their id as well.
ALTER TABLE ends ADD COLUMN job_id BLOB;

UPDATE ends SET job_id = runs.job_id, id = runs.id
FROM runs
WHERE runs.seq = ends.seq AND (ends.started_at IS NULL OR ends.started_at - runs.scheduled_for > 60000000);

-- These by when they began: their starts are not in the order of their ids. One that ended while it waited for another
-- attempt stands where it ended; one that never began comes last.
CREATE INDEX ends_late ON ends (
    job_id,
    coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807),
    id
) WHERE job_id IS NOT NULL;
