//! Pages of the history, asked for in SQL.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;
use tokio_postgres::{Client, NoTls};

use crate::service::Service;
use crate::{Args, print};

/// Ended runs that there are.
const HISTORY: usize = 5_000;

/// Runs of a page.
const PAGE: usize = 50;

/// Pages that are read before those that count.
const WARM_UP: usize = 50;

/// Reads the latest runs over several connections at once, and prints how many pages a second.
pub fn measure(service: &Service, args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..args.connections.max(1) {
            let (client, connection) = tokio_postgres::connect(&service.config()?, NoTls).await?;
            tokio::spawn(connection);
            clients.push(client);
        }
        fill(&clients[0]).await?;
        let sql = format!(
            "SELECT job_run_uuid, state, started_at, completed_at, result_message \
             FROM sys.job_runs ORDER BY started_at DESC LIMIT {PAGE}"
        );
        let connections = clients.len();
        let clients: Vec<_> = clients.into_iter().map(std::sync::Arc::new).collect();
        let mut begin = Instant::now();
        let each = args.pages.div_ceil(connections);
        for (pages, is_counted) in [(WARM_UP.div_ceil(connections), false), (each, true)] {
            begin = if is_counted { Instant::now() } else { begin };
            let mut readers = tokio::task::JoinSet::new();
            for client in &clients {
                let (client, sql) = (std::sync::Arc::clone(client), sql.clone());
                readers.spawn(async move { read(&client, &sql, pages).await });
            }
            while let Some(read) = readers.join_next().await {
                read??;
            }
        }
        let (read, seconds) = (each * connections, begin.elapsed().as_secs_f64());
        let more = json!({
            "connections": connections, "pages": read, "page": PAGE, "history": HISTORY,
        });
        print("sql_page", read as f64 / seconds, "pages/s", &more);
        Ok(())
    })
}

/// Makes the history: runs of one job that end at once.
async fn fill(client: &Client) -> Result<()> {
    client.batch_execute("CREATE JOB page SCHEDULE MANUAL OVERLAP ALLOW AS NOOP").await?;
    for _ in 0..HISTORY {
        client.simple_query("EXECUTE JOB page").await?;
    }
    let ended = "SELECT count(*) FROM sys.job_runs WHERE state = 'COMPLETED'";
    let begin = Instant::now();
    loop {
        let count: i64 = client.query_one(ended, &[]).await?.try_get(0)?;
        if usize::try_from(count)? >= HISTORY {
            return Ok(());
        }
        ensure!(begin.elapsed().as_secs() < 120, "{count} of {HISTORY} runs have ended");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn read(client: &Client, sql: &str, pages: usize) -> Result<()> {
    for _ in 0..pages {
        let rows = client.query(sql, &[]).await?;
        ensure!(rows.len() == PAGE, "a page of {} runs", rows.len());
    }
    Ok(())
}
