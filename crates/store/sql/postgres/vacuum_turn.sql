-- Whether it is time for a vacuum, and no other node does it: since the last one, at least $1 runs were handed out. The more
-- are live, the longer it takes, and the seldomer it pays.
UPDATE gate SET vacuum_fence = fence
WHERE fence - vacuum_fence >= greatest($1::bigint, (SELECT reltuples::bigint / 5 FROM pg_class WHERE oid = 'runs'::regclass))
RETURNING fence
