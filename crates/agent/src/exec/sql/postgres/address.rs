//! Where a PostgreSQL database is, and how it is spoken to.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::action::Assignment;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::super::DatabaseError;
use crate::Secrets;
use crate::exec::Failure;
use crate::secrets::resolve;

/// A database of a PostgreSQL server.
#[derive(Clone)]
pub struct PostgresDatabase {
    config: Box<Config>,
    password_file: Option<PathBuf>,
    root_certificates: Option<PathBuf>,
    /// Made once: reading all the certificates that a machine trusts takes a while.
    tls: Arc<OnceLock<MakeRustlsConnect>>,
}

impl PostgresDatabase {
    /// The database at an address such as `postgres://user@host/name`. Its password may be a
    /// reference, `${secrets.NAME}`.
    ///
    /// Over a network TLS is required unless the address says `sslmode=disable`. There is no
    /// `prefer`: whoever stands between could answer that the server has no TLS.
    pub fn parse(url: &str) -> Result<Self, DatabaseError> {
        let bad = |problem: String| Err(DatabaseError::Bad { field: "url", problem });
        // We always check the name and the chain of a certificate, so the stricter modes of
        // others are our only one.
        let known = url
            .replace("sslmode=verify-full", "sslmode=require")
            .replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = match known.parse() {
            Ok(config) => config,
            // The error does not repeat the address, which may hold a password.
            Err(error) => return bad(words(&error)),
        };
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return bad("names no host: write postgres://user@host/database".into());
        }
        if config.get_user().is_none() {
            return bad("names no user: write postgres://user@host/database".into());
        }
        if !url.contains("sslmode=") {
            config.ssl_mode(if is_here(&config) { SslMode::Disable } else { SslMode::Require });
        } else if config.get_ssl_mode() == SslMode::Prefer {
            return bad(
                "sslmode=prefer would go on without TLS in silence: write sslmode=require or \
                 sslmode=disable"
                    .into(),
            );
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
        Ok(PostgresDatabase {
            config: Box::new(config),
            password_file: None,
            root_certificates: None,
            tls: Arc::default(),
        })
    }

    /// Reads the password from a file, anew for each attempt; the end of its last line is no part
    /// of it.
    pub fn password_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.password_file = Some(file.into());
        self
    }

    /// Trusts the certificates of a PEM file instead of those that the machine trusts; it is read
    /// once.
    pub fn root_certificates(mut self, file: impl Into<PathBuf>) -> Self {
        self.root_certificates = Some(file.into());
        self.tls = Arc::default();
        self
    }

    /// Whether it is reached through a socket of this machine.
    pub(in crate::exec::sql) fn is_socket(&self) -> bool {
        self.config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_)))
    }

    /// The address with its password.
    pub(super) async fn complete(
        &self,
        assignment: &Assignment,
        secrets: &dyn Secrets,
    ) -> Result<Config, Failure> {
        let mut config = Config::clone(&self.config);
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
    pub(super) fn tls(&self) -> Result<MakeRustlsConnect, Failure> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls.clone());
        }
        let tls = self.make_tls()?;
        Ok(self.tls.get_or_init(|| tls).clone())
    }

    fn make_tls(&self) -> Result<MakeRustlsConnect, Failure> {
        let wrong = |problem: String| Failure::other("TLS_UNAVAILABLE", problem);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?;
        let config = match (&self.root_certificates, self.config.get_ssl_mode()) {
            (Some(file), SslMode::Require) => {
                let shown = file.display();
                let unreadable =
                    |error| wrong(format!("the certificates of {shown} cannot be read: {error}"));
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
                    let added = roots.add(certificate.map_err(unreadable)?);
                    added.map_err(|error| wrong(format!("a certificate of {shown}: {error}")))?;
                }
                builder.with_root_certificates(roots)
            }
            (None, SslMode::Require) => {
                builder.with_platform_verifier().map_err(|error| wrong(error.to_string()))?
            }
            // Nobody will ask.
            _ => builder.with_root_certificates(RootCertStore::empty()),
        };
        Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
    }
}

impl fmt::Debug for PostgresDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresDatabase")
            .field("hosts", &self.config.get_hosts())
            .field("database", &self.config.get_dbname())
            .field("user", &self.config.get_user())
            .finish_non_exhaustive()
    }
}

/// Whether the server is on this machine.
fn is_here(config: &Config) -> bool {
    let names = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address: Option<std::net::IpAddr> = name.parse().ok();
            name == "localhost" || address.is_some_and(|address| address.is_loopback())
        }
    });
    names && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback)
}

/// The error and its causes: the driver's own words say only "invalid connection string".
pub(super) fn words(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, expected) in [
            ("postgres://u@localhost/d", "Disable"),
            ("postgres://u@127.0.0.1/d", "Disable"),
            ("postgresql:///d?user=u&host=/run/postgresql", "Disable"),
            ("postgres://u@db.example.org/d", "Require"),
            ("postgres://u@localhost,db.example.org/d", "Require"),
            ("postgres://u@localhost/d?hostaddr=10.0.0.1", "Require"),
            ("postgres://u@db.example.org/d?sslmode=disable", "Disable"),
            ("postgres://u@db.example.org/d?sslmode=verify-full", "Require"),
            (
                "postgres://u@db.example.org/d?sslmode=prefer",
                "url: sslmode=prefer would go on without TLS in silence: write sslmode=require or \
                 sslmode=disable",
            ),
            ("postgres:///d?user=u", "url: names no host: write postgres://user@host/database"),
            ("postgres://localhost/d", "url: names no user: write postgres://user@host/database"),
            (
                "postgres://u:geheim@localhost/d?color=red",
                "url: invalid connection string: unknown option `color`",
            ),
        ] {
            let answer = match PostgresDatabase::parse(url) {
                Ok(database) => format!("{:?}", database.config.get_ssl_mode()),
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
