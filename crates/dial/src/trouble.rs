//! Why there is no connection, and what to do about it.

use std::error::Error;
use std::io::{self, ErrorKind};

use rustls::CertificateError;
use tokio_postgres::error::DbError;

use crate::{Address, AddressError, causes, words};

/// What went wrong, for people. It holds no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What it was.
    pub problem: String,
    /// What to do.
    pub advice: String,
}

/// What to do when a server refuses, by its code.
const BY_STATE: &[(&str, &str)] = &[
    ("28P01", "correct the user or the password of the address"),
    ("3D000", "make it with CREATE DATABASE, or correct the name at the end of the address"),
    ("53300", "raise max_connections there, or end other connections"),
    ("57P03", "wait until the server is up"),
    ("08P01", POOLER),
];

/// What to do when a pooler answers.
pub const POOLER: &str = "name the database itself: behind a pooler, sessions, their settings and \
                          their locks are not one's own";

const STRANGER: &str = "see that it is PostgreSQL which listens there, and what its log says";

/// What to do when there was no answer, by words of the driver or the system.
const BY_WORDS: &[(&str, &str)] = &[
    (
        "server does not support TLS",
        "switch TLS on there (ssl = on), or write sslmode=disable if nobody listens on the way",
    ),
    ("password missing", "write it into the address: postgres://user:password@host/database"),
    (
        "does not allow writes",
        "name the server that takes writes, or all of them: postgres://user@db-1,db-2/database",
    ),
    ("lookup address", "correct the name of the host"),
    (
        "channel binding",
        "let the server ask for SCRAM (scram-sha-256) over TLS, or leave channel_binding out",
    ),
    ("unexpected message", STRANGER),
    ("parsing response", STRANGER),
    ("communicating with the server", STRANGER),
];

/// What to do when the system has no connection.
const BY_KIND: &[(ErrorKind, &str)] = &[
    (ErrorKind::ConnectionRefused, "see that PostgreSQL runs there and listens on this port"),
    (
        ErrorKind::NotFound,
        "see that PostgreSQL runs there, and that host is the folder of its socket",
    ),
    (ErrorKind::TimedOut, "see that the host is right and that no firewall is in the way"),
    (ErrorKind::HostUnreachable, "see that this machine has a way to it"),
    (ErrorKind::NetworkUnreachable, "see that this machine has a way to it"),
    (ErrorKind::PermissionDenied, "let the user of this process use the socket"),
];

const OTHERWISE: &str = "see the log of the database server";

impl Address {
    /// What an error means that came instead of a connection to this address.
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

    /// What a server has said instead of letting us in.
    fn refusal(&self, db: &DbError) -> Trouble {
        let code = db.code().code();
        let advice = match BY_STATE.iter().find(|(state, _)| *state == code) {
            Some((_, advice)) => (*advice).to_owned(),
            // The server's words may be in any language, so what we know must do.
            None if code == "28000" => self.about_admission(),
            None => OTHERWISE.to_owned(),
        };
        Trouble { problem: self.says(&format!("{} (SQLSTATE {code})", db.message())), advice }
    }

    fn about_admission(&self) -> String {
        let role = "make the role, and a line for it in the server's pg_hba.conf";
        let tls = match (self.is_plain(), self.has_identity()) {
            _ if self.is_socket() => "",
            (true, _) => "; where that asks for TLS (hostssl), write sslmode=verify-full",
            (false, false) => "; where that asks for a certificate, give sslcert and sslkey",
            (false, true) => "; the name in the certificate of sslcert must be the role's",
        };
        format!("{role}{tls}")
    }

    fn about_tls(&self, error: &rustls::Error) -> String {
        use CertificateError as Bad;
        let advice = match error {
            rustls::Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature)
                if self.names_roots() =>
            {
                "the file of sslrootcert must hold the authority that vouches for the server"
            }
            rustls::Error::InvalidCertificate(Bad::UnknownIssuer) => {
                "give the file of the authority that vouches for the server: sslrootcert=FILE"
            }
            rustls::Error::InvalidCertificate(
                Bad::NotValidForName | Bad::NotValidForNameContext { .. },
            ) => {
                "write the host as the certificate names it, or sslmode=verify-ca if names do not \
                 matter"
            }
            rustls::Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
                "renew the server's certificate"
            }
            rustls::Error::AlertReceived(_) => {
                "see the log of the database server; where it asks for a certificate, give one \
                 that it trusts with sslcert and sslkey"
            }
            _ => "see the certificate of the server, and its log",
        };
        advice.to_owned()
    }

    fn says(&self, said: &str) -> String {
        match self.config().get_hosts().len() {
            1 => format!("the database at {}: {said}", self.place()),
            _ => format!("none of {} can be used; the last one tried: {said}", self.place()),
        }
    }
}
