//! Connections, and bringing the tables to this release's shape.

use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime, Timeouts,
};
use refinery::Target;
use tokio_postgres::{Client, Config, NoTls};

use super::PostgresOptions;
use crate::{Result, StoreError};

mod embedded {
    use refinery::embed_migrations;
    embed_migrations!("migrations/postgres");
}

/// The oldest release that has what the statements use.
const SERVER_VERSION_MIN: i32 = 13_00_00;

/// Held while tables are created or changed: "punctual" in ASCII.
const MIGRATION_LOCK: i64 = 0x70756e637475616c;

/// Plans must not depend on how full a table happened to be when they were made. Every statement
/// is written to probe indexes, so other ways to join are switched off, and a plan is made once.
/// A session that dies in the middle of a transaction must not keep the gate shut.
const SESSION: &str = "\
    -c search_path=punctual \
    -c plan_cache_mode=force_generic_plan \
    -c jit=off \
    -c enable_seqscan=off \
    -c enable_bitmapscan=off \
    -c enable_hashjoin=off \
    -c enable_mergejoin=off \
    -c enable_material=off \
    -c enable_memoize=off \
    -c random_page_cost=1.1 \
    -c work_mem=16MB \
    -c statement_timeout=60s \
    -c idle_in_transaction_session_timeout=10s \
    -c tcp_keepalives_idle=5 \
    -c tcp_keepalives_interval=2 \
    -c tcp_keepalives_count=3 \
    -c default_transaction_isolation=read\\ committed";

/// A durable answer needs a flushed log, whatever the server's default. A stricter default stays.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') IN ('off', 'local')";

/// What is asked when a run is due and nobody should wait for a statement to be read first.
const PROMPT: [&str; 6] = [
    sql!("facts"),
    sql!("lock_node"),
    sql!("run_insert"),
    sql!("run_known"),
    sql!("gate"),
    sql!("claim_born"),
];

/// How connections are made.
pub(super) fn config(url: &str) -> Result<Config> {
    let mut config: Config = url
        .parse()
        .map_err(|error| StoreError::Unavailable(format!("the store's address: {error}")))?;
    let options = format!("{} {SESSION}", config.get_options().unwrap_or_default());
    config.options(options.trim());
    if config.get_application_name().is_none() {
        config.application_name("punctual");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    config.keepalives_idle(Duration::from_secs(5));
    config.tcp_user_timeout(Duration::from_secs(10));
    Ok(config)
}

/// A pool of connections that is ready for use.
pub(super) async fn connect(
    config: &Config,
    options: &PostgresOptions,
    known: i32,
) -> Result<Pool> {
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), NoTls, recycling);
    // Hosts are tried one after the other, and the last one may be the one that takes writes.
    let tries = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(2);
    let timeouts = Timeouts {
        wait: Some(Duration::from_secs(30)),
        create: config.get_connect_timeout().map(|one| *one * tries),
        recycle: None,
    };
    let pool = Pool::builder(manager)
        .max_size(options.pool_size)
        .runtime(Runtime::Tokio1)
        .timeouts(timeouts)
        // The connection that was used last knows its statements best.
        .queue_mode(QueueMode::Lifo)
        .post_create(Hook::async_fn(|client, _| {
            Box::pin(async move {
                client.batch_execute(DURABLE).await.map_err(HookError::Backend)?;
                for sql in PROMPT {
                    // The tables may not be there yet.
                    let _ = client.prepare_cached(sql).await;
                }
                Ok(())
            })
        }))
        .build()
        .map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let mut client = pool.get().await?;
    migrate(&mut client, known).await?;
    Ok(pool)
}

/// The newest version of the tables that this release knows.
pub(super) fn newest() -> i32 {
    let runner = embedded::migrations::runner();
    let versions = runner.get_migrations().iter().map(refinery::Migration::version);
    versions.max().unwrap_or(0)
}

/// Applies what is missing, one process at a time, and refuses a database that is too old for
/// this release, or whose tables were changed by a newer one so that this one cannot use them.
async fn migrate(client: &mut Client, known: i32) -> Result<()> {
    let server: i32 = client
        .query_one("SELECT current_setting('server_version_num')::integer", &[])
        .await?
        .try_get(0)?;
    if server < SERVER_VERSION_MIN {
        return Err(StoreError::Unavailable(format!(
            "PostgreSQL 13 or later is needed, this is {}",
            server / 10_000
        )));
    }
    client.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await?;
    let migrated = apply(client, known).await;
    client.execute("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await?;
    migrated
}

async fn apply(client: &mut Client, known: i32) -> Result<()> {
    // Asked first: whoever prepared the schema may not have given the right to create one.
    let schema =
        client.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = 'punctual'", &[]).await?;
    if schema.is_none() {
        client.batch_execute("CREATE SCHEMA punctual").await?;
    }
    if let Some(found) = version(client).await?.filter(|found| *found > known) {
        let needs = needs(client).await?.unwrap_or(found);
        if needs > known {
            return Err(StoreError::TooNew { found: found.into(), known: known.into() });
        }
        // Everything that this release knows was applied before that.
        tracing::info!(found, known, "a newer release has added to the tables; this one goes on");
        return Ok(());
    }
    let runner = embedded::migrations::runner().set_target(Target::Version(known));
    client.batch_execute("SET statement_timeout = 0").await?;
    let report = runner.run_async(client).await;
    client.batch_execute("RESET statement_timeout").await?;
    report.map_err(|error| StoreError::Unavailable(format!("migrating the database: {error}")))?;
    Ok(())
}

/// Whether a table is there.
async fn has(client: &Client, table: &str) -> Result<bool> {
    let row = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table]).await?;
    Ok(row.try_get(0)?)
}

/// The version of the tables; none before the first migration.
async fn version(client: &Client) -> Result<Option<i32>> {
    if !has(client, "punctual.refinery_schema_history").await? {
        return Ok(None);
    }
    let version = "SELECT max(version)::integer FROM refinery_schema_history";
    Ok(client.query_one(version, &[]).await?.try_get(0)?)
}

/// What a release must know at least to work on the tables; none if they do not say.
async fn needs(client: &Client) -> Result<Option<i32>> {
    if !has(client, "punctual.compatibility").await? {
        return Ok(None);
    }
    let row = client.query_opt("SELECT needs FROM compatibility", &[]).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}
