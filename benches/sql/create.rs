//! Jobs a second, one statement each.

use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use tokio_postgres::NoTls;

use crate::service::Service;
use crate::{Args, print};

/// Makes jobs over several connections at once, and prints how many a second.
pub fn measure(service: &Service, args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = service.config()?;
        let mut clients = Vec::new();
        for _ in 0..args.connections {
            let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
            tokio::spawn(connection);
            clients.push(client);
        }
        let each = args.jobs.div_ceil(args.connections.max(1));
        let begin = Instant::now();
        let mut makers = tokio::task::JoinSet::new();
        for (number, client) in clients.into_iter().enumerate() {
            makers.spawn(async move {
                let mut slowest = 0.0_f64;
                for job in 0..each {
                    let sql = format!(
                        "CREATE JOB bench_{number}_{job} SCHEDULE CRON '0 3 * * *' AS NOOP"
                    );
                    let asked = Instant::now();
                    client.simple_query(&sql).await?;
                    slowest = slowest.max(asked.elapsed().as_secs_f64());
                }
                Ok::<f64, tokio_postgres::Error>(slowest)
            });
        }
        let mut slowest = 0.0_f64;
        while let Some(made) = makers.join_next().await {
            slowest = slowest.max(made??);
        }
        let seconds = begin.elapsed().as_secs_f64();
        let made = each * args.connections;
        let more = json!({
            "connections": args.connections, "jobs": made, "slowest_ms": slowest * 1_000.0,
        });
        print("sql_create_job", made as f64 / seconds, "jobs/s", &more);
        Ok(())
    })
}
