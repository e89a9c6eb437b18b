-- A node that leaves gives everything back.
UPDATE runs SET turn = turn + 1, node_id = NULL, fence = NULL WHERE node_id = ?1
RETURNING tenant_id
