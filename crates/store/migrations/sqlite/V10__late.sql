-- Ended runs that began more than a minute after their time, or never: those whose starts are not in the order of their
-- ids. They are few, so this is a table of its own and not an index that every run would pay for.
CREATE TABLE late (
    job_id BLOB NOT NULL,
    -- When its last attempt began; when it ended, if that was while it waited for another one; the greatest number if it
    -- never began.
    began INTEGER NOT NULL,
    id BLOB NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (job_id, began, id)
) STRICT, WITHOUT ROWID;

INSERT INTO late (job_id, began, id, seq)
SELECT r.job_id, coalesce(e.started_at, CASE WHEN e.attempts + e.lost > 0 THEN e.finished_at END, 9223372036854775807), r.id, r.seq
FROM ends AS e CROSS JOIN runs AS r ON r.seq = e.seq
WHERE e.started_at IS NULL OR e.started_at - r.scheduled_for > 60000000;
