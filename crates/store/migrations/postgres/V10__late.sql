-- Ended runs that began more than a minute after their time, or never: those whose starts are not in the order of their
-- ids. They are few, so this is a table of its own and not an index that every run would pay for.
CREATE TABLE late (
    job_id uuid NOT NULL,
    -- When its last attempt began; when it ended, if that was while it waited for another one; the greatest number if it
    -- never began.
    began bigint NOT NULL,
    id uuid NOT NULL,
    PRIMARY KEY (job_id, began, id)
);

INSERT INTO late (job_id, began, id)
SELECT job_id, coalesce(started_at, CASE WHEN attempts + lost > 0 THEN finished_at END, 9223372036854775807), id
FROM history
WHERE (started_at - scheduled_for > 60000000) IS NOT FALSE;
