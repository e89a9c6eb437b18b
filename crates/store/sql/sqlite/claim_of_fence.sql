-- The claim with this fence, if there is one.
SELECT first, node_id, grants FROM claims WHERE first <= ?1 ORDER BY first DESC LIMIT 1
