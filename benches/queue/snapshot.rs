//! How fast messages are processed while a snapshot of the database is held open.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use crate::goals::Goal;
use crate::service::Service;
use crate::work::{create, drain, send};
use crate::{Args, StoreKind, print, progress};

pub fn measure(service: &Service, args: &Args) -> Result<()> {
    create(service, "tasks")?;
    let round = || -> Result<f64> {
        send(&mut service.client()?, "tasks", args.messages, 1_000, "")?;
        drain(service, 4, 100, args.messages)
    };
    progress("without a snapshot");
    let before = round()?;
    progress(format!("with a snapshot of {} s", args.snapshot_seconds));
    let begun = Instant::now();
    let length = Duration::from_secs(args.snapshot_seconds);
    let mut last = before;
    hold(service, args.store, || {
        while begun.elapsed() < length {
            last = round()?;
        }
        Ok(())
    })?;
    let settings = json!({"seconds": args.snapshot_seconds, "before": before.round()});
    print(args, "queue.snapshot", last.round(), "messages/s", settings, None);
    let goal = Some(Goal::AtLeast(0.8));
    print(args, "queue.snapshot_ratio", last / before, "with / without", json!({}), goal);
    Ok(())
}

/// Does something while a transaction sees the database as it is now.
fn hold(service: &Service, store: StoreKind, work: impl FnOnce() -> Result<()>) -> Result<()> {
    match store {
        StoreKind::Sqlite => {
            let connection = rusqlite::Connection::open(service.file())?;
            connection.execute_batch("BEGIN")?;
            let _: i64 = connection.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0))?;
            work()
        }
        StoreKind::Postgres => {
            let url = service.database().unwrap_or_default();
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()?;
            let client = runtime.block_on(async {
                let (client, connection) =
                    tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
                tokio::spawn(connection);
                let begin =
                    "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM punctual.jobs";
                client.batch_execute(begin).await?;
                anyhow::Ok(client)
            })?;
            work()?;
            runtime.block_on(client.batch_execute("COMMIT"))?;
            Ok(())
        }
    }
}
