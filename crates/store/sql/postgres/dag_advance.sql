-- Decisions about DAG runs ($1) count if they are based on the present revisions ($2).
UPDATE dag_runs d SET revision = d.revision + 1, control = u.control, is_over = u.is_over
FROM unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::boolean[]) AS u (run_id, revision, control, is_over)
WHERE d.run_id = u.run_id AND d.revision = u.revision
RETURNING d.run_id
