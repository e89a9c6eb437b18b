-- Runs of this transaction that had ended before: they are sent again, and do not run again.
DELETE FROM runs r USING unnest($1::uuid[]) AS u (id), history h
WHERE h.id = u.id AND r.id = h.id
RETURNING r.id
