//! Connections, and bringing the tables to this release's shape.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime, Timeouts,
};
use postgres_connect::Tls;
use refinery::Target;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::submit::SUBMIT;
use super::{PostgresAddress, PostgresOptions};
use crate::lineage::{self, Recorded};
use crate::{Result, StoreError, TOKEN_BITS, TOKENS_SINCE};

mod embedded {
    use refinery::embed_migrations;
    embed_migrations!("migrations/postgres");
}

/// The oldest server release that has the features of the statements.
const SERVER_VERSION_MIN: i32 = 13_00_00;

/// Held while tables are created or changed: "punctual" in ASCII.
const MIGRATION_LOCK: i64 = 0x70756e637475616c;

/// A durable answer needs a flushed log, whatever the server's default; a stricter default stays.
/// And one more way to join is switched off, where the server has it (release 14).
const SET_UP: &str = "SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') IN ('off', 'local');
    SELECT set_config('enable_memoize', 'off', false)
        WHERE current_setting('enable_memoize', true) IS NOT NULL";

/// Statements on the path of a due run: they are prepared in advance.
const PROMPT: [&str; 3] = [sql!("starts_share"), sql!("facts"), SUBMIT];

/// A pool of connections that is ready for use.
pub(super) async fn connect(
    address: &PostgresAddress,
    tls: &Tls,
    options: &PostgresOptions,
    known: i32,
) -> Result<Pool> {
    let config = address.config();
    let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config.clone(), tls.clone(), recycling);
    // Hosts are tried one after the other, and the last one may be the one that takes writes.
    let tries = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(2);
    let timeouts = Timeouts {
        wait: Some(Duration::from_secs(30)),
        create: config.get_connect_timeout().map(|one| *one * tries),
        recycle: None,
    };
    let migrated = Arc::new(AtomicBool::new(false));
    let has_tables = Arc::clone(&migrated);
    let pool = Pool::builder(manager)
        .max_size(options.pool_size)
        .runtime(Runtime::Tokio1)
        .timeouts(timeouts)
        // The connection that was used last knows its statements best.
        .queue_mode(QueueMode::Lifo)
        .post_create(Hook::async_fn(move |client, _| {
            let has_tables = has_tables.load(Ordering::Relaxed);
            Box::pin(async move {
                client.batch_execute(SET_UP).await.map_err(HookError::Backend)?;
                if has_tables {
                    advance_tokens(client).await.map_err(HookError::Backend)?;
                }
                for sql in PROMPT.iter().filter(|_| has_tables) {
                    client.prepare_cached(sql).await.map_err(HookError::Backend)?;
                }
                Ok(())
            })
        }))
        .build()
        .map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let mut client = pool.get().await.map_err(|error| address.no_connection(&error, &timeouts))?;
    look_at(&client, address).await?;
    migrate(&mut client, address, known).await?;
    advance_tokens(&client).await?;
    migrated.store(true, Ordering::Relaxed);
    Ok(pool)
}

/// The newest version of the tables that this release knows.
pub(super) fn newest() -> i32 {
    let runner = embedded::migrations::runner();
    let versions = runner.get_migrations().iter().map(refinery::Migration::version);
    versions.max().unwrap_or(0)
}

/// Fencing tokens continue behind all that were allocated before. A database that was restored, or
/// a replica that took over, may have lost some; it has new connections in any case.
async fn advance_tokens(client: &Client) -> std::result::Result<(), tokio_postgres::Error> {
    let first = "((extract(epoch FROM now())::bigint - $1::bigint) << $2::integer)";
    let advance = format!("SELECT advance_start_tokens({first})");
    let values: [&(dyn ToSql + Sync); 2] = [&TOKENS_SINCE, &TOKEN_BITS.cast_signed()];
    client.execute(&advance, &values).await.map(|_| ())
}

/// Refuses a server that no store can be on, and logs how well the connection is protected.
async fn look_at(client: &Client, address: &PostgresAddress) -> Result<()> {
    let look = "SELECT current_setting('server_version_num')::integer,
        current_setting('search_path') = 'punctual' AND current_setting('enable_seqscan') = 'off',
        (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid())";
    let row = client.query_one(look, &[]).await?;
    if let Some(refused) = too_old(row.try_get(0)?) {
        return Err(refused);
    }
    if !row.try_get::<_, bool>(1)? {
        return Err(StoreError::Refused {
            problem: "the settings of a session did not reach the database".to_owned(),
            advice: postgres_connect::POOLER.to_owned(),
        });
    }
    match row.try_get::<_, Option<bool>>(2)? {
        _ if address.is_here() => {}
        Some(true) if address.is_checked() => {}
        Some(true) => tracing::info!(
            "the connection to the database is encrypted, but the certificate is not verified, so it \
             has: sslmode=verify-full does"
        ),
        _ => tracing::warn!(
            "the connection to the database is not encrypted: sslmode=verify-full asks for it"
        ),
    }
    Ok(())
}

fn too_old(server: i32) -> Option<StoreError> {
    (server < SERVER_VERSION_MIN).then(|| StoreError::Refused {
        problem: format!("the database is PostgreSQL {}", server / 10_000),
        advice: "release 13 or later is needed: upgrade it, or name another one".to_owned(),
    })
}

/// Applies missing migrations, one process at a time. Refuses tables that were changed by a newer
/// release so that this one cannot use them, and tables that were made before the first release.
async fn migrate(client: &mut Client, address: &PostgresAddress, known: i32) -> Result<()> {
    client.execute("SELECT pg_advisory_lock($1)", &[&MIGRATION_LOCK]).await?;
    let migrated = apply(client, known).await;
    let unlocked = client.execute("SELECT pg_advisory_unlock($1)", &[&MIGRATION_LOCK]).await;
    migrated.map_err(|error| address.no_tables(error))?;
    unlocked?;
    Ok(())
}

/// Why there are no tables.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unmade {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Migration(#[from] refinery::Error),
}

async fn apply(client: &mut Client, known: i32) -> std::result::Result<(), Unmade> {
    // Checked first: the administrator that created the schema may not have granted CREATE.
    let schema =
        client.query_opt("SELECT 1 FROM pg_namespace WHERE nspname = 'punctual'", &[]).await?;
    if schema.is_none() {
        client.batch_execute("CREATE SCHEMA punctual").await?;
    }
    let runner = embedded::migrations::runner().set_target(Target::Version(known));
    let recorded = recorded(client).await?;
    lineage::check(runner.get_migrations(), &recorded, "an empty database")?;
    let newest = recorded.iter().map(|(number, _)| *number).max();
    if let Some(found) = newest.filter(|found| *found > known) {
        let needs = needs(client).await?.unwrap_or(found);
        if needs > known {
            return Err(StoreError::TooNew { found: found.into(), known: known.into() }.into());
        }
        // Everything that this release knows was applied before that.
        tracing::info!(found, known, "a newer release has added to the tables; this one goes on");
        return Ok(());
    }
    client.batch_execute("SET statement_timeout = 0").await?;
    let report = runner.run_async(client).await;
    client.batch_execute("RESET statement_timeout").await?;
    report?;
    Ok(())
}

/// Whether a table is there.
async fn has(client: &Client, table: &str) -> std::result::Result<bool, tokio_postgres::Error> {
    let row = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table]).await?;
    row.try_get(0)
}

/// The migrations that the database recorded; none before the first.
async fn recorded(client: &Client) -> std::result::Result<Vec<Recorded>, tokio_postgres::Error> {
    if !has(client, "punctual.refinery_schema_history").await? {
        return Ok(Vec::new());
    }
    let rows = client.query(lineage::RECORDED, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Oldest release that can work on the tables; none if they do not record it.
async fn needs(client: &Client) -> std::result::Result<Option<i32>, tokio_postgres::Error> {
    if !has(client, "punctual.compatibility").await? {
        return Ok(None);
    }
    let row = client.query_opt("SELECT needs FROM compatibility", &[]).await?;
    row.map(|row| row.try_get(0)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_server_is_refused() {
        assert!(too_old(13_00_00).is_none() && too_old(18_00_01).is_none());
        let refused = too_old(12_00_22).unwrap().to_string();
        assert!(refused.contains("PostgreSQL 12") && refused.contains("release 13"), "{refused}");
    }
}
