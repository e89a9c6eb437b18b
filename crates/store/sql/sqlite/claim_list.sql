-- Who holds what.
SELECT first, node_id, grants FROM claims ORDER BY first
