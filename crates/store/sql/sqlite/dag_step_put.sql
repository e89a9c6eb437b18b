-- Steps of DAG runs; earlier records of them are replaced.
INSERT OR REPLACE INTO dag_steps (dag_run_id, step, item, outcome, reason, reason_text, run_id, items, by_step, by_item,
    decided_at, ended_at, adopted, called)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
