//! The address of the database, the set-up of sessions, and errors without a connection.

use std::error::Error;
use std::time::Duration;

use deadpool_postgres::{HookError, PoolError, TimeoutType, Timeouts};
use postgres_connect::{Address, AddressError, Manner, Tls, Trouble};
use tokio_postgres::Config;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::{DbError, SqlState};

use super::connect::Unmade;
use crate::{Result, StoreError};

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
    -c random_page_cost=1.1 \
    -c work_mem=16MB \
    -c statement_timeout=60s \
    -c idle_in_transaction_session_timeout=10s \
    -c tcp_keepalives_idle=5 \
    -c tcp_keepalives_interval=2 \
    -c tcp_keepalives_count=3 \
    -c default_transaction_isolation=read\\ committed";

/// The address of a database that is to be a store.
#[derive(Clone, Debug)]
pub struct PostgresAddress(Box<Address>);

impl PostgresAddress {
    /// Parses an address, `postgres://…`. Its parameters mean the same as for libpq.
    pub fn parse(url: &str) -> std::result::Result<Self, AddressError> {
        let mut address = Address::parse(url, Manner::Libpq)?;
        let config = address.config_mut();
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(AddressError {
                parameter: "target_session_attrs".to_owned(),
                problem: "a store writes: write read-write, or leave it out".to_owned(),
            });
        }
        // Of several hosts, the one that takes writes.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let options = format!("{} {SESSION}", config.get_options().unwrap_or_default());
        config.options(options.trim());
        if config.get_application_name().is_none() {
            config.application_name("punctual");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(5));
        }
        if config.get_keepalives_idle() == Config::new().get_keepalives_idle() {
            config.keepalives_idle(Duration::from_secs(5));
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(10));
        }
        Ok(PostgresAddress(Box::new(address)))
    }

    pub(super) fn config(&self) -> &Config {
        self.0.config()
    }

    /// Whether the server is on this machine.
    pub(super) fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// Whether the certificate of the server is verified.
    pub(super) fn is_checked(&self) -> bool {
        self.0.is_checked()
    }

    /// The TLS configuration; errors of files that the address names are reported now.
    pub(super) fn tls(&self) -> Result<Tls> {
        self.0.tls().map_err(|wrong| refused(self.0.explain(&wrong)))
    }

    /// Why the first connection did not come about.
    pub(super) fn no_connection(&self, error: &PoolError, limits: &Timeouts) -> StoreError {
        let trouble = match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                let mut trouble = self.0.explain(error);
                if error.code() == Some(&SqlState::UNDEFINED_OBJECT) {
                    // An old server does not support the options of our sessions.
                    trouble.advice = "PostgreSQL 13 or later is needed; options of the address \
                                      must be settings that it has"
                        .to_owned();
                }
                trouble
            }
            PoolError::Timeout(TimeoutType::Create) => Trouble {
                problem: format!(
                    "the database at {} took more than {} seconds to answer",
                    self.0.place(),
                    limits.create.unwrap_or_default().as_secs(),
                ),
                advice: "check that PostgreSQL listens there and is healthy".into(),
            },
            other => self.0.explain(other),
        };
        refused(trouble)
    }

    /// Error about missing tables. It lists the privileges that the user needs.
    pub(super) fn no_tables(&self, error: Unmade) -> StoreError {
        let found =
            postgres_connect::causes(&error).find_map(|cause| cause.downcast_ref::<DbError>());
        if let Some(db) = found.filter(|db| *db.code() == SqlState::INSUFFICIENT_PRIVILEGE) {
            let user = self.config().get_user().unwrap_or("punctual");
            let database = self.config().get_dbname().unwrap_or(user);
            let (user, database) = (quoted(user), quoted(database));
            return StoreError::Refused {
                problem: format!(
                    "the database user may not make the tables of the store: {}",
                    db.message()
                ),
                advice: format!(
                    "GRANT CREATE ON DATABASE {database} TO {user}; or, where the schema is there \
                     already, make that user the owner of it and of all that is in it: ALTER \
                     SCHEMA punctual OWNER TO {user}"
                ),
            };
        }
        match error {
            Unmade::Store(error) => error,
            Unmade::Database(error) => error.into(),
            Unmade::Migration(error) => {
                // The last cause is the database's own message.
                let causes = std::iter::successors(error.source(), |&cause| cause.source());
                let cause = causes.last().map(|cause| format!(": {cause}")).unwrap_or_default();
                StoreError::Unavailable(format!("migrating the database: {error}{cause}"))
            }
        }
    }
}

/// A name as SQL writes it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn refused(Trouble { problem, advice }: Trouble) -> StoreError {
    StoreError::Refused { problem, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_address_says_is_kept() {
        let of = |parameters: &str| {
            PostgresAddress::parse(&format!("postgres://u@h/d?{parameters}")).unwrap()
        };
        let (plain, chosen) = (
            of(""),
            of("connect_timeout=7&tcp_user_timeout=1500&keepalives_idle=9&application_name=x"),
        );
        let seconds = Duration::from_secs;
        for (address, connect, user, idle, name) in [
            (plain, seconds(5), seconds(10), seconds(5), "punctual"),
            (chosen, seconds(7), Duration::from_millis(1500), seconds(9), "x"),
        ] {
            let config = address.config();
            assert_eq!(config.get_connect_timeout(), Some(&connect));
            assert_eq!(config.get_tcp_user_timeout(), Some(&user));
            assert_eq!(config.get_keepalives_idle(), idle);
            assert_eq!(config.get_application_name(), Some(name));
            assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
        // Ours come last, so that they count.
        let options =
            of("options=-c%20search_path%3Dpublic").config().get_options().map(str::to_owned);
        let options = options.unwrap();
        assert!(options.starts_with("-c search_path=public -c search_path=punctual"), "{options}");
    }
}
