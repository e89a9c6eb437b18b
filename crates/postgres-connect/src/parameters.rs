//! The parameters of an address and their valid values.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;

use crate::AddressError;

/// The handler of a parameter.
enum Use {
    /// This crate interprets it.
    Ours,
    /// The driver interprets it; the text describes valid values.
    Driver(&'static str),
    /// The driver has another name for it.
    Called(&'static str, &'static str),
    /// Other clients support it; the text says what to do here.
    Elsewhere(&'static str),
}

use Use::{Called, Driver, Elsewhere, Ours};

const SECONDS: &str = "a whole number of seconds";

/// Every parameter that libpq or the driver has.
const PARAMETERS: &[(&str, Use)] = &[
    ("application_name", Driver("a text")),
    ("channel_binding", Driver("disable, prefer or require")),
    ("client_encoding", Elsewhere("leave it out: it is always UTF-8")),
    ("connect_timeout", Driver(SECONDS)),
    ("dbname", Driver("the name of a database")),
    ("fallback_application_name", Elsewhere("write application_name")),
    ("gssencmode", Elsewhere("leave it out: Kerberos is not supported")),
    ("host", Driver("the name of a host, or the folder of a socket")),
    ("hostaddr", Driver("an IP address")),
    ("keepalives", Driver("0 or 1")),
    ("keepalives_count", Called("keepalives_retries", "a whole number")),
    ("keepalives_idle", Driver(SECONDS)),
    ("keepalives_interval", Driver(SECONDS)),
    ("keepalives_retries", Driver("a whole number")),
    ("load_balance_hosts", Driver("disable or random")),
    ("options", Driver("a text")),
    ("passfile", Elsewhere("write the password into the address")),
    ("password", Driver("a text")),
    ("pgbouncer", Elsewhere("name the database itself, not a pooler")),
    ("port", Driver("a number from 1 to 65535")),
    ("replication", Elsewhere("leave it out")),
    ("requirepeer", Elsewhere("leave it out")),
    ("require_auth", Elsewhere("leave it out")),
    ("service", Elsewhere("write the host, user and database into the address")),
    ("sslcert", Ours),
    ("sslcrl", Elsewhere("leave it out: certificate revocation lists are not supported")),
    ("sslkey", Ours),
    ("sslmode", Ours),
    ("sslnegotiation", Driver("postgres or direct")),
    (
        "sslpassword",
        Elsewhere("remove the password from the key, and make its file readable only by this user"),
    ),
    ("sslrootcert", Ours),
    ("ssl_min_protocol_version", Elsewhere("leave it out: it is TLS 1.2 or later")),
    ("target_session_attrs", Driver("any, read-write, primary or read-only")),
    ("tcp_user_timeout", Ours),
    ("user", Driver("a name")),
];

/// Parameters that may occur more than once: each adds to those before.
const LISTS: &[&str] = &["host", "hostaddr", "port"];

/// A parsed address.
pub(crate) struct Parts {
    /// The parameters of the driver.
    pub config: Config,
    /// The parameters of this crate.
    pub ours: BTreeMap<&'static str, String>,
}

pub(crate) fn wrong(parameter: &str, problem: impl Into<String>) -> AddressError {
    AddressError { parameter: parameter.to_owned(), problem: problem.into() }
}

/// Parses an address into its parameters.
pub(crate) fn split(url: &str) -> Result<Parts, AddressError> {
    let schemes = ["postgres://", "postgresql://"];
    let Some(rest) = schemes.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
        return Err(wrong("scheme", "an address begins with postgres://"));
    };
    // The rest after a second separator might be half of a password, so it is not looked at.
    let (before, after) = rest.split_once('@').unwrap_or(("", rest));
    if after.contains('@') || before.starts_with('/') {
        let text = "unexpected @: write %40 for an @ in a user, a password or a parameter";
        return Err(wrong("host", text));
    }
    let (place, query) = after.split_once('?').unwrap_or((after, ""));
    let base = format!("postgres://{}{place}", &rest[..rest.len() - after.len()]);
    if base.parse::<Config>().is_err() {
        let text = "cannot be read: write postgres://user:password@host:port/database, with %40 \
                    for an @, %3A for a : and %2F for a / in a user or a password";
        return Err(wrong("host", text));
    }
    let mut parts = Vec::new();
    let mut ours = BTreeMap::new();
    let mut seen: Vec<&str> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, raw) = pair.split_once('=').unwrap_or((pair, ""));
        let Some((name, what)) = PARAMETERS.iter().find(|(known, _)| *known == name) else {
            return Err(unknown(name, query));
        };
        if raw.is_empty() {
            return Err(wrong(name, "has no value"));
        }
        if seen.contains(name) && !LISTS.contains(name) {
            return Err(wrong(name, "is given twice: write it once"));
        }
        seen.push(name);
        let (called, right) = match what {
            Elsewhere(instead) => return Err(wrong(name, format!("is not supported: {instead}"))),
            Ours => {
                let text = percent_decode_str(raw).decode_utf8();
                let text = text.map_err(|_| wrong(name, "is not UTF-8"))?;
                ours.insert(*name, text.into_owned());
                continue;
            }
            Driver(right) => (*name, *right),
            Called(called, right) => (*called, *right),
        };
        // `read-write` and `primary` have the same effect here.
        let raw = match (*name, raw) {
            ("target_session_attrs", "primary") => "read-write",
            (_, raw) => raw,
        };
        let one = format!("{called}={raw}");
        if format!("postgres:///?{one}").parse::<Config>().is_err() {
            return Err(wrong(name, format!("must be {right}")));
        }
        parts.push(one);
    }
    let config = format!("{base}?{}", parts.join("&")).parse();
    let config = config.map_err(|error| wrong("host", crate::words(&error)))?;
    Ok(Parts { config, ours })
}

/// The error for an unknown parameter. It repeats the name unless that may be a piece of a
/// password.
fn unknown(name: &str, query: &str) -> AddressError {
    let harmless = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let names = PARAMETERS.iter().filter(|(_, what)| !matches!(what, Elsewhere(_)));
    if !harmless || query.contains("password=") {
        return wrong("parameters", "unknown parameter; write %26 for an & in a value");
    }
    let near = names.map(|(known, _)| (*known, strsim::damerau_levenshtein(known, name)));
    let near = near.min_by_key(|(_, distance)| *distance);
    let near = near.filter(|(_, distance)| *distance * 3 <= name.len());
    match near {
        Some((near, _)) => wrong(name, format!("unknown parameter; did you mean {near}?")),
        None => wrong(name, "unknown parameter; use those of libpq"),
    }
}
