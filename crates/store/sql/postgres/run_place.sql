-- Runs with a placement request that this transaction has recorded.
UPDATE runs r SET place = string_to_array(u.place, E'\n')
FROM unnest($1::uuid[], $2::text[]) AS u (id, place)
WHERE r.id BETWEEN u.id AND u.id AND r.xmin = pg_current_xact_id()::xid
