//! Where a PostgreSQL database is, and how it is spoken to.

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

/// What is wrong with an address, or with a file that it names. It holds no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}: {problem}")]
pub struct AddressError {
    /// The parameter.
    pub parameter: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

/// How the words about TLS are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As libpq does: TLS is tried when nothing is said about it, and a certificate is checked
    /// when the address says so.
    Libpq,
    /// There is TLS to every other machine unless the address says `sslmode=disable`, and every
    /// certificate is checked, its name too.
    Strict,
}

/// The address of a database.
#[derive(Clone)]
pub struct Address {
    config: Config,
    security: Arc<Security>,
}

/// What an address says about TLS.
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
                let text = "allow would speak TLS only to a server that insists: write \
                            verify-full, require or disable";
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
    /// Reads an address such as `postgres://user@host/name?sslmode=verify-full`. No file is read
    /// yet.
    pub fn parse(url: &str, manner: Manner) -> Result<Self, AddressError> {
        let Parts { mut config, mut ours } = split(url)?;
        if config.get_hosts().is_empty() {
            // Certificates are checked against it then, as libpq does.
            for address in config.get_hostaddrs().to_vec() {
                config.host(address.to_string());
            }
        }
        if config.get_hosts().is_empty() {
            return Err(wrong("host", "there is none: write postgres://user@host/database"));
        }
        if let Some(text) = ours.remove("tcp_user_timeout") {
            // The driver would read seconds.
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
        // A socket has no TLS, and needs none.
        let sockets = config.get_hosts().iter().filter(|host| is_socket(host)).count();
        let mode = match sockets {
            0 => mode,
            all if all == config.get_hosts().len() => SslMode::Disable,
            _ if mode == SslMode::Require => {
                let text = "a socket has no TLS, which sslmode asks for: name hosts only";
                return Err(wrong("host", text));
            }
            _ => mode,
        };
        config.ssl_mode(mode);
        Ok(Address { config, security: Arc::new(Security::new(trust, identity, is_direct)) })
    }

    /// What the driver needs.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The same, to be completed. What is about TLS stays as it is.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// How TLS is spoken, where it is. Files that the address names are read once now, so that
    /// what is wrong with them is said, and again for every connection: a new certificate needs
    /// no restart.
    pub fn tls(&self) -> Result<Tls, AddressError> {
        Tls::new(Arc::clone(&self.security))
    }

    /// Whether a connection without TLS is what the address asks for.
    pub fn is_plain(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Disable
    }

    /// Whether a certificate of the client is shown.
    pub fn has_identity(&self) -> bool {
        self.security.identity.is_some()
    }

    /// Whether the address names files of this machine.
    pub fn names_files(&self) -> bool {
        self.has_identity() || self.names_roots()
    }

    /// Whether one of them says whom to trust.
    pub(crate) fn names_roots(&self) -> bool {
        matches!(self.security.trust, Trust::File { .. })
    }

    /// Whether a server has to show who it is.
    pub fn is_checked(&self) -> bool {
        !self.is_plain() && !matches!(self.security.trust, Trust::Anybody)
    }

    /// Whether it is reached through a socket of this machine.
    pub fn is_socket(&self) -> bool {
        self.config.get_hosts().iter().any(is_socket)
    }

    /// Whether the server is on this machine.
    pub fn is_here(&self) -> bool {
        is_here(&self.config)
    }

    /// The hosts and their ports, for people.
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

/// What libpq makes of the words. It ignores what has no use in a mode; we say so.
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
                "system trusts whoever has a certificate for any name, so the name must be \
                 checked: write sslmode=verify-full",
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
        // With a file, `require` checks the chain; it does so in libpq.
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

/// The stricter modes of others are the only one.
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
            let text = "prefer would go on without TLS in silence: write require or disable";
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
