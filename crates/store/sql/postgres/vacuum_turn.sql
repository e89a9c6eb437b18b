-- Whether it is time for a vacuum, and no other node does it: since the last one, at least $1 runs
-- were claimed. The more runs are live, the longer it takes, and the less often it pays.
UPDATE gate SET vacuum_fence = fence
WHERE fence - vacuum_fence >= greatest($1::bigint, (SELECT reltuples::bigint / 5 FROM pg_class WHERE oid = 'runs'::regclass))
RETURNING fence
