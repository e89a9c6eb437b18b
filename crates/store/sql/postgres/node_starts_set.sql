-- Runs under way on a node, with their start times. A dead node writes nothing.
INSERT INTO node_starts (node_id, run_ids, turns, started_at)
SELECT n.id, $2::uuid[], $3::integer[], $4::bigint[] FROM nodes n WHERE n.id = $1 AND NOT n.dead
ON CONFLICT (node_id) DO UPDATE
SET run_ids = excluded.run_ids, turns = excluded.turns, started_at = excluded.started_at
