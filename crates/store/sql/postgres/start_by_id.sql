-- Ended runs of a job ($1) that began before a place ($2, $3), newest first, with ids from $7 up to but without $8.
-- $5 and $6: how they ended, and whether several attempts will do as well.
-- Partitions are read one after the other until there are enough rows: an older partition is read
-- only if the newer ones had too few. The conditions on the id alone choose the partition; those on
-- both columns begin and end the walk.
SELECT h.id, h.started_at
FROM (SELECT first, until FROM history_ranges WHERE first < $8::uuid AND until > $7::uuid ORDER BY first DESC) AS p
CROSS JOIN LATERAL (
    SELECT id, started_at
    FROM history
    WHERE (job_id, id) >= ($1, greatest(p.first, $7::uuid)) AND (job_id, id) < ($1, least(p.until, $8::uuid))
        AND job_id BETWEEN $1 AND $1 AND id >= p.first AND id < p.until
        AND (started_at, id) < ($2::bigint, $3::uuid)
        AND (outcome = ANY ($5::smallint[]) OR $6::boolean AND attempts + lost > 1)
    ORDER BY job_id DESC, id DESC
    LIMIT $4::bigint
) AS h
LIMIT $4::bigint
