-- All but the newest runs of one job.
WITH gone AS (
    DELETE FROM history
    WHERE id = ANY (ARRAY(
        SELECT h.id FROM history h WHERE h.job_id BETWEEN $1 AND $1
        ORDER BY h.job_id DESC, h.id DESC LIMIT $3::bigint OFFSET $2::bigint
    ))
    RETURNING id, job_id, scheduled_for, started_at, finished_at, attempts, lost
),
attempt AS (
    DELETE FROM attempts a USING gone g WHERE a.run_id BETWEEN g.id AND g.id
),
late_start AS (
    DELETE FROM late l USING gone g
    WHERE (g.started_at - g.scheduled_for > 60000000) IS NOT FALSE AND l.job_id = g.job_id AND l.id = g.id
        AND l.began = coalesce(g.started_at, CASE WHEN g.attempts + g.lost > 0 THEN g.finished_at END, 9223372036854775807)
),
acknowledgement AS (
    DELETE FROM acknowledgements a WHERE (a.run_id IN (SELECT id FROM gone)) IS TRUE
)
SELECT count(*) FROM gone
