//! A table in a database of its own, into which jobs write what they did.

use std::collections::BTreeMap;

use testbed::postgres;

/// What one attempt did.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The time that its run stands for, in seconds.
    pub second: i64,
    /// Its run.
    pub run: String,
    /// Its fence.
    pub fence: i64,
}

/// The table, and the database of the cluster beside it.
pub struct Ledger {
    pub url: String,
    pub store: String,
}

/// Asks a database something.
fn ask<T>(url: &str, work: impl AsyncFnOnce(&tokio_postgres::Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        work(&client).await
    })
}

impl Ledger {
    /// The statement of a job.
    pub const WRITE: &str = "INSERT INTO effects (job, run, second, fence) VALUES (
        current_setting('punctual.job_name'), current_setting('punctual.job_run_uuid'),
        extract(epoch FROM current_setting('punctual.scheduled_for')::timestamptz)::bigint,
        current_setting('punctual.fence')::bigint)";

    /// Makes both databases for a test.
    pub fn create(test: &str) -> Self {
        let server = postgres::Server::shared();
        let names = [format!("{test}_ledger"), format!("{test}_store")];
        for name in &names {
            let create = format!("CREATE DATABASE {name}");
            ask(&server.url("postgres"), async |client| client.batch_execute(&create).await)
                .unwrap();
        }
        let [url, store] = names.map(|name| server.url(&name));
        let table = "CREATE TABLE effects (
            number bigint GENERATED ALWAYS AS IDENTITY, job text, run text, second bigint, fence bigint)";
        ask(&url, async |client| client.batch_execute(table).await).unwrap();
        Ledger { url, store }
    }

    /// What a job did, in the order in which it was written.
    pub fn of(&self, job: &str) -> Vec<Effect> {
        let query = "SELECT second, run, fence FROM effects WHERE job = $1 ORDER BY number";
        let rows = ask(&self.url, async |client| client.query(query, &[&job]).await).unwrap();
        let effect = |row: &tokio_postgres::Row| Effect {
            second: row.get(0),
            run: row.get(1),
            fence: row.get(2),
        };
        rows.iter().map(effect).collect()
    }

    /// The effects of each second, from the first to the last; every second between them is there.
    pub fn seconds(&self, job: &str) -> BTreeMap<i64, Vec<Effect>> {
        let mut seconds: BTreeMap<i64, Vec<Effect>> = BTreeMap::new();
        for effect in self.of(job) {
            seconds.entry(effect.second).or_default().push(effect);
        }
        let (Some(first), Some(last)) = (seconds.keys().next(), seconds.keys().last()) else {
            return seconds;
        };
        let missing: Vec<i64> = (*first..=*last).filter(|at| !seconds.contains_key(at)).collect();
        assert!(missing.is_empty(), "{job} lost {missing:?}");
        seconds
    }
}
