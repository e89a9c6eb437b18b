-- Somebody saw to dead letters.
UPDATE history SET dead_letter = false WHERE id = ANY ($1::uuid[]) AND dead_letter
RETURNING id
