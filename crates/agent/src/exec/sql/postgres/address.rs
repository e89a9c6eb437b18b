//! Where a PostgreSQL database is, and how it is spoken to.

use std::path::PathBuf;
use std::time::Duration;

use domain::action::Assignment;
use postgres_connect::{Address, Manner, Tls};
use tokio_postgres::Config;

use super::super::DatabaseError;
use crate::Secrets;
use crate::exec::Failure;
use crate::secrets::resolve;

/// A database of a PostgreSQL server.
#[derive(Clone, Debug)]
pub struct PostgresDatabase {
    address: Box<Address>,
    password_file: Option<PathBuf>,
}

impl PostgresDatabase {
    /// The database at an address such as `postgres://user@host/name`. Its password may be a
    /// reference, `${secrets.NAME}`.
    ///
    /// Over a network TLS is required unless the address has `sslmode=disable`. There is no
    /// `prefer`: an attacker on the path could answer that the server has no TLS. The name and the
    /// chain of a certificate are always checked, so the weaker modes do not exist.
    pub fn parse(url: &str) -> Result<Self, DatabaseError> {
        let bad = |problem: String| DatabaseError::Bad { field: "url", problem };
        let mut address =
            Address::parse(url, Manner::Strict).map_err(|wrong| bad(wrong.to_string()))?;
        let config = address.config_mut();
        if config.get_user().is_none() {
            return Err(bad("names no user: write postgres://user@host/database".into()));
        }
        if config.get_application_name().is_none() {
            config.application_name("punctual");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_secs(10));
        }
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(3);
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(30));
        }
        Ok(PostgresDatabase { address: Box::new(address), password_file: None })
    }

    /// Reads the password from a file, anew for each attempt; the end of its last line is no part
    /// of it.
    pub fn password_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.password_file = Some(file.into());
        self
    }

    /// Whether it is reached through a socket of this machine.
    pub(in crate::exec::sql) fn is_socket(&self) -> bool {
        self.address.is_socket()
    }

    /// Whether its address names files of this machine.
    pub(in crate::exec::sql) fn names_files(&self) -> bool {
        self.address.names_files()
    }

    /// The address with its password.
    pub(super) async fn complete(
        &self,
        assignment: &Assignment,
        secrets: &dyn Secrets,
    ) -> Result<Config, Failure> {
        let mut config = self.address.config().clone();
        if let Some(file) = &self.password_file {
            let read = tokio::task::spawn_blocking({
                let file = file.clone();
                move || std::fs::read_to_string(file)
            });
            match read.await {
                Ok(Ok(text)) => {
                    config.password(text.trim_end_matches(['\r', '\n']));
                }
                Ok(Err(error)) => {
                    let file = file.display();
                    let problem = format!("the password file {file} cannot be read: {error}");
                    return Err(Failure::other("SECRET_UNREADABLE", problem));
                }
                Err(error) => return Err(Failure::other("SECRET_UNREADABLE", error.to_string())),
            }
        } else if let Some(password) = config.get_password() {
            let password = String::from_utf8_lossy(password).into_owned();
            let password = resolve(&password, assignment, secrets).await;
            config.password(
                password.map_err(|error| Failure::secret("password", &error))?.as_bytes(),
            );
        }
        Ok(config)
    }

    /// How TLS is spoken, where it is.
    pub(super) fn tls(&self) -> Result<Tls, Failure> {
        self.address.tls().map_err(|wrong| Failure::other("TLS_UNAVAILABLE", wrong.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, expected) in [
            ("postgres://u@localhost/d", "no TLS"),
            ("postgres://u@db.example.org/d", "checked"),
            ("postgres://u@db.example.org/d?sslmode=verify-full", "checked"),
            (
                "postgres://u@db.example.org/d?sslmode=prefer",
                "url: sslmode: prefer can silently connect without TLS: write require or disable",
            ),
            (
                "postgres:///d?user=u",
                "url: host: there is none: write postgres://user@host/database",
            ),
            ("postgres://localhost/d", "url: names no user: write postgres://user@host/database"),
            (
                "postgres://u:geheim@localhost/d?color=red",
                "url: color: unknown parameter; use those of libpq",
            ),
        ] {
            let answer = match PostgresDatabase::parse(url) {
                Ok(database) if database.address.is_checked() => "checked".to_owned(),
                Ok(database) if database.address.is_plain() => "no TLS".to_owned(),
                Ok(database) => format!("{database:?}"),
                Err(error) => error.to_string(),
            };
            assert_eq!(answer, expected, "{url}");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let database = PostgresDatabase::parse("postgres://u:geheim@localhost/d").unwrap();
        assert!(!format!("{database:?}").contains("geheim"));
    }
}
