-- Somebody saw to dead letters.
UPDATE history h SET dead_letter = false
FROM unnest($1::uuid[]) AS u (id)
WHERE h.id BETWEEN u.id AND u.id AND h.dead_letter
RETURNING h.id
