//! A long history, written behind the server's back: in the shape and order of a real one, one run in
//! fifty not completed, one in a hundred asked for by hand.

use anyhow::Result;
use domain::id::TenantId;
use domain::run::{Origin, Outcome};
use jiff::{SignedDuration, Timestamp};
use rusqlite::Connection;

use crate::pages::JOBS;
use crate::service::Service;

/// Times within the history.
pub struct Times {
    /// Half of it is older.
    pub middle: Timestamp,
    /// Next to nothing is older.
    pub early: Timestamp,
}

/// Which runs are written.
#[derive(Clone, Copy)]
struct Shape {
    runs: i64,
    /// How many jobs take turns.
    jobs: i64,
    /// When the first run is due, in milliseconds.
    first: i64,
    /// How many milliseconds lie between two runs.
    step: i64,
}

impl Shape {
    /// When the last run has ended and more, in microseconds.
    fn end(&self) -> i64 {
        (self.first + self.runs * self.step + 1000) * 1000
    }
}

/// Writes so many ended runs of a thousand jobs, one a millisecond.
pub fn history(service: &Service, runs: u64) -> Result<Times> {
    let first = Timestamp::now() - SignedDuration::from_hours(24 * 20);
    let (jobs, first_ms) = (JOBS as i64, first.as_millisecond());
    write(service, Shape { runs: runs as i64, jobs, first: first_ms, step: 1 })?;
    let after = |ms: u64| first + SignedDuration::from_millis(ms as i64);
    Ok(Times { middle: after(runs / 2), early: after(50) })
}

/// Writes so many ended runs of all jobs, over the last 30 days until now, and the statistics of the
/// tenant that come from them.
pub fn month(service: &Service, runs: u64, jobs: usize) -> Result<()> {
    let length = SignedDuration::from_hours(24 * 30);
    let first = (Timestamp::now() - length).as_millisecond();
    let step = (length.as_millis() as i64 / runs as i64).max(1);
    let shape = Shape { runs: runs as i64, jobs: jobs as i64, first, step };
    write(service, shape)?;
    let tenant = TenantId::DEFAULT.0;
    match service.database() {
        None => {
            let sql = "INSERT INTO tallies (tenant_id, job_id, hour, measure, class, amount)
                       SELECT ?1, zeroblob(16), finished_at / 3600000000, 1, outcome, count(*)
                       FROM ends GROUP BY 3, 5";
            Connection::open(service.file())?.execute(sql, (tenant.as_bytes(),))?;
        }
        Some(url) => on_postgres(
            &url,
            &[format!(
                "INSERT INTO punctual.tallies (tenant_id, job_id, hour, measure, class, amount)
                 SELECT '{tenant}'::uuid, lpad('', 32, '0')::uuid, finished_at / 3600000000, 1,
                     outcome, count(*)
                 FROM punctual.history GROUP BY 3, 5"
            )],
        )?,
    }
    Ok(())
}

fn write(service: &Service, shape: Shape) -> Result<()> {
    match service.database() {
        None => sqlite(service, shape),
        Some(url) => postgres(&url, shape),
    }
}

fn sqlite(service: &Service, shape: Shape) -> Result<()> {
    let Shape { runs, jobs, first, step } = shape;
    let connection = Connection::open(service.file())?;
    connection.execute_batch("PRAGMA cache_size = -262144; BEGIN IMMEDIATE")?;
    // The server numbers its runs from one on, so these are numbered below.
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1),
             j(k, id) AS MATERIALIZED (SELECT row_number() OVER (ORDER BY name) - 1, id FROM jobs)
         INSERT INTO runs (seq, id, job_id, tenant_id, job_version, scheduled_for, shard, due_at,
             order_at, lane, origin, coalesced, ignore_dependencies, attempts, lost, turn, wait,
             created_at)
         SELECT i - ?1, unhex(printf('%012x7%03x80%014x', ms, i % 4096, i)), j.id, ?3, 1,
             ms * 1000, '', ms * 1000, ms * 1000, 5, iif(i % 100 = 17, ?5, ?6), 0, 0, 0, 0, 0, 0,
             ms * 1000
         FROM (SELECT i, ?2 + i * ?7 AS ms FROM n) JOIN j ON j.k = i % ?4",
        (
            runs,
            first,
            TenantId::DEFAULT.0.as_bytes(),
            jobs,
            Origin::Manual as i64,
            Origin::Schedule as i64,
            step,
        ),
    )?;
    connection.execute(
        "INSERT INTO ends (seq, outcome, dead_letter, attempts, lost, finished_at, number,
             attempt_end, node_id, fence, started_at, tenant_id, id)
         SELECT seq, iif(seq % 50 = 0, ?1 + abs(seq) / 50 % 3, 1), seq % 500 = 0, 1, 0,
             due_at + 500, 1, iif(seq % 50 = 0, 'FAILED', 'COMPLETED'), zeroblob(16), 1,
             due_at + 100, iif(seq % 50 = 0, tenant_id, NULL), iif(seq % 50 = 0, id, NULL)
         FROM runs WHERE seq < 0",
        (Outcome::Failed as i64,),
    )?;
    // Old runs were tallied when they were new.
    connection.execute("UPDATE tally_cursor SET finished_at = ?1", (shape.end(),))?;
    connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE); ANALYZE")?;
    Ok(())
}

fn postgres(url: &str, shape: Shape) -> Result<()> {
    let Shape { runs, jobs, first, step } = shape;
    let sql = format!(
        "WITH j AS MATERIALIZED (
             SELECT row_number() OVER (ORDER BY name) - 1 AS k, id FROM punctual.jobs)
         INSERT INTO punctual.history (id, job_id, tenant_id, node_id, scheduled_for, due_at,
             finished_at, started_at, fence, job_version, coalesced, attempts, lost, number,
             attempt_end, origin, outcome, dead_letter, shard, created_at)
         SELECT (lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(i % 4096), 3, '0')
                 || '80' || lpad(to_hex(i), 14, '0'))::uuid,
             j.id, '{tenant}'::uuid, lpad('2', 32, '0')::uuid,
             ms * 1000, ms * 1000, ms * 1000 + 500, ms * 1000 + 100, 1, 1, 0, 1, 0, 1, 1,
             CASE WHEN i % 100 = 17 THEN {manual} ELSE {schedule} END,
             CASE WHEN i % 50 = 0 THEN {failed} + i / 50 % 3 ELSE 1 END, i % 500 = 0, '', ms * 1000
         FROM (SELECT i, {first} + i * {step} AS ms FROM generate_series(0::bigint, {runs} - 1) i) n
             JOIN j ON j.k = i % {jobs}
         ORDER BY i",
        tenant = TenantId::DEFAULT.0,
        manual = Origin::Manual as i64,
        schedule = Origin::Schedule as i64,
        failed = Outcome::Failed as i64,
    );
    let tallied = format!("UPDATE punctual.tally_cursor SET finished_at = {}", shape.end());
    let tidy = ["VACUUM ANALYZE punctual.history".to_owned(), "CHECKPOINT".to_owned()];
    on_postgres(url, &[[sql, tallied], tidy].concat())
}

fn on_postgres(url: &str, statements: &[String]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        let connection = tokio::spawn(connection);
        for sql in statements {
            client.batch_execute(sql).await?;
        }
        connection.abort();
        Ok(())
    })
}
