-- The partitions of history in the order of their ids, with the size of their rows on disk, how many rows the server thinks
-- they have, and the time.
SELECT
    r.number, r.first, r.until, r.row_by_row,
    coalesce(pg_relation_size(to_regclass('history_' || r.number)), 0) AS bytes,
    coalesce((SELECT greatest(c.reltuples, 0)::bigint FROM pg_class c WHERE c.oid = to_regclass('history_' || r.number)), 0) AS rows,
    clock() AS now
FROM history_ranges r
ORDER BY r.first
