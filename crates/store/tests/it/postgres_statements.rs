//! How many statements an operation costs: a number that a loaded machine does not change.

use domain::id::UserId;
use domain::run::NewRun;
use store::{ClaimFor, Store};
use testbed::postgres::{Server, Setup};
use tokio_postgres::Client;

use crate::bench::Bench;
use crate::lab::{Lab, processes};
use crate::postgres_bench::PostgresBench;

/// The statements that the server has executed for stores since the last reset, with their counts.
async fn executed(client: &Client) -> Vec<(String, i64)> {
    let sql = "SELECT query, calls FROM pg_stat_statements
               WHERE toplevel AND query NOT LIKE '%pg_stat_statements%' ORDER BY query";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Runs that come together are recorded, audited and claimed by one statement, also those that a
/// user requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requested_run_costs_one_statement() {
    let setup = Setup::default().set("shared_preload_libraries=pg_stat_statements");
    let server: &'static Server = Box::leak(Box::new(setup.start()));
    let bench = PostgresBench::empty_on(server).await;
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let client = lab.bench.connect().await;
    client.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let (node, job) = (lab.node().await, lab.job("job").await);
    for by in [None, Some(UserId::ADMIN)] {
        for count in [1, 20] {
            let mut least = None;
            // Other work of a store can only add to the count.
            for _ in 0..5 {
                let mut runs: Vec<NewRun> = Vec::new();
                for _ in 0..count {
                    let run = lab.run(&job, lab.ago(60).await);
                    runs.push(NewRun { requested_by: by, ..run });
                }
                client.batch_execute("SELECT pg_stat_statements_reset()").await.unwrap();
                let born = Some(ClaimFor { node, max: processes(1) });
                let submitted = lab.store.submit(&runs, born).await.unwrap();
                assert!(submitted.accepted.iter().all(|accepted| *accepted));
                let executed = executed(&client).await;
                let calls: i64 = executed.iter().map(|(_, calls)| *calls).sum();
                if least.as_ref().is_none_or(|(least, _)| calls < *least) {
                    least = Some((calls, executed));
                }
            }
            let (calls, executed) = least.unwrap();
            assert_eq!(calls, 1, "{count} runs by {by:?}: {executed:#?}");
        }
    }
    lab.close().await;
}
