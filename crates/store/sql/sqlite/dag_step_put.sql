-- Steps of DAG runs, in place of what was recorded of them.
INSERT OR REPLACE INTO dag_steps (dag_run_id, step, item, outcome, reason, reason_text, run_id, items, by_step, by_item,
    decided_at, ended_at, adopted, called)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
