-- Nodes that are not there any more.
DELETE FROM node_starts WHERE node_id NOT IN (SELECT id FROM nodes)
