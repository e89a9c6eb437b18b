-- The claim that a grant is part of, if it is part of one.
SELECT first, node_id, grants FROM claims WHERE first <= ?1 ORDER BY first DESC LIMIT 1
