-- Nodes that have been gone for long.
WITH gone AS (
    DELETE FROM nodes WHERE gone_at < clock() - $1::bigint AND cleared RETURNING id
)
DELETE FROM node_starts s USING gone g WHERE s.node_id BETWEEN g.id AND g.id
