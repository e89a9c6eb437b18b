//! Connection errors with hints.

use std::error::Error;
use std::io::{self, ErrorKind};

use rustls::CertificateError;
use tokio_postgres::error::DbError;

use crate::{Address, AddressError, causes, words};

/// A connection error, for people. Contains no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The cause.
    pub problem: String,
    /// The next step.
    pub advice: String,
}

/// Hints by the SQLSTATE of a refusal.
const BY_STATE: &[(&str, &str)] = &[
    ("28P01", "correct the user or the password of the address"),
    ("3D000", "create it with CREATE DATABASE, or correct the name at the end of the address"),
    ("53300", "raise max_connections of the database, or close other connections"),
    ("57P03", "wait until the server is up"),
    ("08P01", POOLER),
];

/// The hint if a connection pooler answers.
pub const POOLER: &str =
    "name the database itself: behind a pooler, session settings and locks are lost";

const NOT_POSTGRESQL: &str = "check that PostgreSQL listens there, and check its log";

/// Hints by the text of an error of the driver or the system.
const BY_WORDS: &[(&str, &str)] = &[
    (
        "server does not support TLS",
        "enable TLS on the server (ssl = on), or write sslmode=disable on a trusted network",
    ),
    ("password missing", "write it into the address: postgres://user:password@host/database"),
    (
        "does not allow writes",
        "name the server that accepts writes, or all of them: postgres://user@db-1,db-2/database",
    ),
    ("lookup address", "correct the host name"),
    (
        "channel binding",
        "configure the server for SCRAM (scram-sha-256) over TLS, or remove channel_binding",
    ),
    ("unexpected message", NOT_POSTGRESQL),
    ("parsing response", NOT_POSTGRESQL),
    ("communicating with the server", NOT_POSTGRESQL),
];

/// Hints by the kind of an IO error.
const BY_KIND: &[(ErrorKind, &str)] = &[
    (ErrorKind::ConnectionRefused, "check that PostgreSQL is running and listens on this port"),
    (
        ErrorKind::NotFound,
        "check that PostgreSQL is running, and that host is the folder of its socket",
    ),
    (ErrorKind::TimedOut, "check the host name and the firewall"),
    (ErrorKind::HostUnreachable, "check the network between this machine and the server"),
    (ErrorKind::NetworkUnreachable, "check the network between this machine and the server"),
    (ErrorKind::PermissionDenied, "let the user of this process use the socket"),
];

const OTHERWISE: &str = "check the log of the database server";

impl Address {
    /// Explains an error of connecting to this address.
    pub fn explain(&self, error: &(dyn Error + 'static)) -> Trouble {
        let causes = || causes(error);
        if let Some(wrong) = causes().find_map(|cause| cause.downcast_ref::<AddressError>()) {
            return Trouble {
                problem: wrong.to_string(),
                advice: "correct the address, or the file".into(),
            };
        }
        if let Some(db) = causes().find_map(|cause| cause.downcast_ref::<DbError>()) {
            return self.refusal(db);
        }
        let said = words(error);
        let io = causes().find_map(|cause| cause.downcast_ref::<io::Error>());
        let tls = io.and_then(|io| io.get_ref()?.downcast_ref::<rustls::Error>());
        let by_words = BY_WORDS.iter().find(|(words, _)| said.contains(words));
        let by_kind = io.and_then(|io| BY_KIND.iter().find(|(kind, _)| *kind == io.kind()));
        let advice = match (tls, by_words, by_kind) {
            (Some(tls), _, _) => self.about_tls(tls),
            (_, Some((_, advice)), _) | (_, _, Some((_, advice))) => (*advice).to_owned(),
            _ => OTHERWISE.to_owned(),
        };
        Trouble { problem: self.says(&said), advice }
    }

    /// Explains a refusal by the server.
    fn refusal(&self, db: &DbError) -> Trouble {
        let code = db.code().code();
        let advice = match BY_STATE.iter().find(|(state, _)| *state == code) {
            Some((_, advice)) => (*advice).to_owned(),
            // The message of the server may be in any language, so the hint comes from the address.
            None if code == "28000" => self.about_admission(),
            None => OTHERWISE.to_owned(),
        };
        Trouble { problem: self.says(&format!("{} (SQLSTATE {code})", db.message())), advice }
    }

    fn about_admission(&self) -> String {
        let role = "create the role, and allow it in pg_hba.conf of the server";
        let tls = match (self.is_plain(), self.has_identity()) {
            _ if self.is_socket() => "",
            (true, _) => "; if pg_hba.conf requires TLS (hostssl), write sslmode=verify-full",
            (false, false) => "; if it requires a client certificate, set sslcert and sslkey",
            (false, true) => "; the name in the certificate of sslcert must be that of the role",
        };
        format!("{role}{tls}")
    }

    fn about_tls(&self, error: &rustls::Error) -> String {
        use CertificateError as Bad;
        let advice = match error {
            rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature)
                if self.names_roots() =>
            {
                "the file of sslrootcert must contain the authority of the server's certificate"
            }
            rustls::Error::InvalidCertificate(Bad::UnknownIssuer) => {
                "name the file of the authority of the server's certificate: sslrootcert=FILE"
            }
            rustls::Error::InvalidCertificate(
                Bad::NotValidForName | Bad::NotValidForNameContext { .. },
            ) => {
                "write the host name of the certificate, or sslmode=verify-ca to skip the host name"
            }
            rustls::Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
                "renew the server's certificate"
            }
            rustls::Error::AlertReceived(_) => {
                "check the log of the database server; if it asks for a client certificate, set \
                 sslcert and sslkey"
            }
            _ => "check the certificate of the server, and its log",
        };
        advice.to_owned()
    }

    fn says(&self, said: &str) -> String {
        match self.config().get_hosts().len() {
            1 => format!("the database at {}: {said}", self.place()),
            _ => format!("no usable server among {}; the last error: {said}", self.place()),
        }
    }
}
