-- Who has acknowledged a run.
SELECT node_id, epoch, at FROM acknowledgements WHERE run_id = $1 ORDER BY epoch, at, node_id
