//! The address of a PostgreSQL database and its connection parameters.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, Host, SslMode, SslNegotiation};

use crate::Tls;
use crate::parameters::{Parts, split, wrong};
use crate::tls::{Identity, Security, Trust};

/// An invalid address, or an unusable file that it names. Contains no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}: {problem}")]
pub struct AddressError {
    /// The parameter that is wrong.
    pub parameter: String,
    /// The problem, and the correct value.
    pub problem: String,
}

/// How TLS parameters are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As in libpq: TLS is tried by default, and the certificate is verified only if the address
    /// asks for it.
    Libpq,
    /// TLS is required for other machines unless the address has `sslmode=disable`, and the
    /// certificate and its host name are always verified.
    Strict,
}

/// The address of a database.
#[derive(Clone)]
pub struct Address {
    config: Config,
    security: Arc<Security>,
}

/// The value of `sslmode`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    fn parse(text: &str) -> Result<Self, AddressError> {
        Ok(match text {
            "disable" => Mode::Disable,
            "prefer" => Mode::Prefer,
            "require" => Mode::Require,
            "verify-ca" => Mode::VerifyCa,
            "verify-full" => Mode::VerifyFull,
            "allow" => {
                let text = "allow is not supported: write verify-full, require or disable";
                return Err(wrong("sslmode", text));
            }
            _ => {
                let text = "must be disable, prefer, require, verify-ca or verify-full";
                return Err(wrong("sslmode", text));
            }
        })
    }
}

impl Address {
    /// Parses an address such as `postgres://user@host/name?sslmode=verify-full`. Reads no files.
    pub fn parse(url: &str, manner: Manner) -> Result<Self, AddressError> {
        let Parts { mut config, mut ours } = split(url)?;
        if config.get_hosts().is_empty() {
            // Certificates are then verified against this address, as in libpq.
            for address in config.get_hostaddrs().to_vec() {
                config.host(address.to_string());
            }
        }
        if config.get_hosts().is_empty() {
            return Err(wrong("host", "there is none: write postgres://user@host/database"));
        }
        if let Some(text) = ours.remove("tcp_user_timeout") {
            // The driver would interpret the number as seconds.
            let Ok(limit) = text.parse() else {
                return Err(wrong("tcp_user_timeout", "must be a whole number of milliseconds"));
            };
            config.tcp_user_timeout(Duration::from_millis(limit));
        }
        let roots = ours.remove("sslrootcert");
        let identity = match (ours.remove("sslcert"), ours.remove("sslkey")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(Identity { certificate: certificate.into(), key: key.into() })
            }
            (Some(_), None) => return Err(wrong("sslkey", "is missing: sslcert needs its key")),
            (None, Some(_)) => {
                return Err(wrong("sslcert", "is missing: sslkey is the key of a certificate"));
            }
        };
        let said = ours.remove("sslmode").map(|text| Mode::parse(&text)).transpose()?;
        let (mode, trust) = match manner {
            Manner::Libpq => as_libpq(said, roots)?,
            Manner::Strict => strictly(said, roots, is_here(&config))?,
        };
        if mode == SslMode::Disable {
            if identity.is_some() {
                return Err(wrong(
                    "sslcert",
                    "is of no use without TLS: write sslmode=verify-full",
                ));
            }
            if config.get_channel_binding() == ChannelBinding::Require {
                let text = "require needs TLS: write sslmode=verify-full";
                return Err(wrong("channel_binding", text));
            }
        }
        let is_direct = config.get_ssl_negotiation() == SslNegotiation::Direct;
        if is_direct && mode != SslMode::Require {
            let text = "direct needs TLS: write sslmode=verify-full, verify-ca or require";
            return Err(wrong("sslnegotiation", text));
        }
        // A Unix socket needs no TLS.
        let sockets = config.get_hosts().iter().filter(|host| is_socket(host)).count();
        let mode = match sockets {
            0 => mode,
            all if all == config.get_hosts().len() => SslMode::Disable,
            _ if mode == SslMode::Require => {
                let text = "a Unix socket has no TLS: name hosts only, or write sslmode=disable";
                return Err(wrong("host", text));
            }
            _ => mode,
        };
        config.ssl_mode(mode);
        Ok(Address { config, security: Arc::new(Security::new(trust, identity, is_direct)) })
    }

    /// The configuration of the driver.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The configuration of the driver, to be completed. TLS options must not be changed.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// The TLS configuration. Files that the address names are read once here to report errors
    /// early, and again for every connection, so a renewed certificate needs no restart.
    pub fn tls(&self) -> Result<Tls, AddressError> {
        Tls::new(Arc::clone(&self.security))
    }

    /// Whether the address asks for a connection without TLS.
    pub fn is_plain(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Disable
    }

    /// Whether the client presents a certificate.
    pub fn has_identity(&self) -> bool {
        self.security.identity.is_some()
    }

    /// Whether the address names files of this machine.
    pub fn names_files(&self) -> bool {
        self.has_identity() || self.names_roots()
    }

    /// Whether one of these files contains trusted certificates (`sslrootcert`).
    pub(crate) fn names_roots(&self) -> bool {
        matches!(self.security.trust, Trust::File { .. })
    }

    /// Whether the certificate of the server is verified.
    pub fn is_checked(&self) -> bool {
        !self.is_plain() && !matches!(self.security.trust, Trust::Anybody)
    }

    /// Whether the address is a Unix socket.
    pub fn is_socket(&self) -> bool {
        self.config.get_hosts().iter().any(is_socket)
    }

    /// Whether the server is on this machine.
    pub fn is_here(&self) -> bool {
        is_here(&self.config)
    }

    /// The hosts and their ports, for messages.
    pub fn place(&self) -> String {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(at, host)| {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) if name.contains(':') => format!("[{name}]:{port}"),
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(folder) => folder.join(format!(".s.PGSQL.{port}")).display().to_string(),
            }
        });
        hosts.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("place", &self.place())
            .field("database", &self.config.get_dbname())
            .field("user", &self.config.get_user())
            .finish_non_exhaustive()
    }
}

fn file(path: String, names: bool) -> Trust {
    Trust::File { path: PathBuf::from(path), names }
}

/// Interprets the parameters as libpq does. libpq ignores parameters without effect in a mode; this
/// function refuses them.
fn as_libpq(said: Option<Mode>, roots: Option<String>) -> Result<(SslMode, Trust), AddressError> {
    let refuse = |problem: &str| Err(wrong("sslrootcert", problem));
    let mode = match (said, roots.as_deref()) {
        (None, Some("system")) => Mode::VerifyFull,
        (said, _) => said.unwrap_or(Mode::Prefer),
    };
    match (mode, roots.as_deref()) {
        (Mode::Disable, Some(_)) => {
            return refuse("is of no use with sslmode=disable: write sslmode=verify-full");
        }
        (Mode::Prefer, Some(_)) => {
            return refuse(
                "is of no use with sslmode=prefer, which goes on without TLS when there is none: \
                 write sslmode=verify-full",
            );
        }
        (Mode::Require | Mode::VerifyCa, Some("system")) => {
            return refuse(
                "system accepts a certificate for any name, so the host name must be verified: \
                 write sslmode=verify-full",
            );
        }
        (Mode::VerifyCa, None) => {
            return refuse(
                "is missing: sslmode=verify-ca needs the file of the authority that it trusts",
            );
        }
        _ => {}
    }
    let trust = match (mode, roots) {
        (Mode::VerifyFull, None) => Trust::Machine,
        (Mode::VerifyFull, Some(name)) if name == "system" => Trust::Machine,
        (Mode::VerifyFull, Some(path)) => file(path, true),
        // With a file, `require` verifies the chain, as in libpq.
        (Mode::VerifyCa | Mode::Require, Some(path)) => file(path, false),
        _ => Trust::Anybody,
    };
    let mode = match mode {
        Mode::Disable => SslMode::Disable,
        Mode::Prefer => SslMode::Prefer,
        Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
    };
    Ok((mode, trust))
}

/// Interprets the parameters in the strict manner: every mode with TLS is `verify-full`.
fn strictly(
    said: Option<Mode>,
    roots: Option<String>,
    is_here: bool,
) -> Result<(SslMode, Trust), AddressError> {
    let mode = match said {
        Some(mode) => mode,
        None if is_here && roots.is_none() => Mode::Disable,
        None => Mode::VerifyFull,
    };
    match (mode, roots) {
        (Mode::Prefer, _) => {
            let text = "prefer can silently connect without TLS: write require or disable";
            Err(wrong("sslmode", text))
        }
        (Mode::Disable, roots) => as_libpq(Some(Mode::Disable), roots),
        (_, roots) => as_libpq(Some(Mode::VerifyFull), roots),
    }
}

fn is_socket(host: &Host) -> bool {
    matches!(host, Host::Unix(_))
}

fn is_here(config: &Config) -> bool {
    let names = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            let address: Option<IpAddr> = name.parse().ok();
            name == "localhost" || address.is_some_and(|address| address.is_loopback())
        }
    });
    names && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

#[cfg(test)]
mod tests;
