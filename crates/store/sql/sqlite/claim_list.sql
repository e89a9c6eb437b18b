-- All claims, oldest first.
SELECT first, node_id, grants FROM claims ORDER BY first
