//! Exactly-once SQL jobs: servers are killed at any time, and the database holds as much work as the
//! ledger has completed runs.

use std::time::Duration;

use serde_json::json;

use super::Cluster;
use super::member::{Member, ask, database};
use crate::serve::process::until;

/// So many runs are asked for.
const RUNS: usize = 60;

#[test]
fn killed_servers_leave_work_and_record_in_agreement() {
    let store = database("effects");
    let create = "CREATE TABLE work (run uuid NOT NULL, fence bigint NOT NULL);";
    ask(&store, async |client| client.batch_execute(create).await).unwrap();
    let member =
        |name: &str| Member::new(name, &store).hasty().with("PUNCTUAL_DATABASES__OWN", &store);
    let mut cluster = Cluster::create(vec![member("a"), member("b")]);
    // The work takes a moment before the commit, and another one after it was recorded.
    let sql = "INSERT INTO work SELECT current_setting('punctual.job_run_uuid')::uuid, \
               current_setting('punctual.fence')::bigint; SELECT pg_sleep(random() * 0.2)";
    cluster.create_any_job(&json!({
        "name": "once", "job_type": "MANUAL", "overlap": "ALLOW", "concurrency": 6,
        "exactly_once": true, "payload": {"type": "SQL", "sql": sql, "database": "own"},
        "retry_config": {"max_attempts": 10, "backoff_seconds": 1},
    }));
    let mut runs = Vec::new();
    for n in 0..RUNS {
        runs.push(cluster.trigger("once"));
        if n % 20 == 10 {
            let name = if n % 40 == 10 { "a" } else { "b" };
            // At some moment of the attempts that are under way.
            #[expect(clippy::disallowed_methods, reason = "the moment of a kill is random")]
            std::thread::sleep(Duration::from_millis(37 * n as u64 % 250));
            cluster.kill(name);
            cluster.start_again(name);
        }
    }
    for run in &runs {
        let path = format!("/v1/executions/{run}");
        let ended = until(|| {
            let (_, run) = cluster.any().call("GET", &path, None);
            run.get("completed_at").is_some().then_some(run)
        });
        assert_eq!(ended["status"], "COMPLETED", "{ended}");
    }
    let count = "SELECT count(*), count(DISTINCT run) FROM work";
    let row = ask(&store, async |client| client.query_one(count, &[]).await).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (RUNS as i64, RUNS as i64));
    let recorded = "SELECT count(*) FROM punctual.effects e JOIN work w ON w.run = e.run_id";
    let row = ask(&store, async |client| client.query_one(recorded, &[]).await).unwrap();
    assert_eq!(row.get::<_, i64>(0), RUNS as i64);
}
