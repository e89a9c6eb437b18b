//! Failures of HTTP calls: a code for programs, a message for people.
//!
//! Messages contain the host and never the path, the query or a header, where secrets may stand.

use std::error::Error;
use std::io;
use std::time::Duration;

use url::Url;

use crate::exec::Failure;
use crate::guard::{Blocked, NotFound, causes, origin};

impl Failure {
    /// The endpoint sent nothing for too long.
    pub fn silent(url: &Url, limit: Duration) -> Self {
        let host = origin(url);
        Failure::other("TIMEOUT", format!("{host} sent nothing for {} s", limit.as_secs_f64()))
    }

    /// Classifies an error of the HTTP client.
    pub fn from_client(error: &reqwest::Error, url: &Url, connect_timeout: Duration) -> Self {
        let host = origin(url);
        if let Some(blocked) = Blocked::within(error) {
            return blocked.clone().into();
        }
        if let Some(NotFound(problem)) = find(error) {
            let message = format!("the address of {host} was not found: {problem}");
            return Failure::other("DNS", message);
        }
        if error.is_timeout() && error.is_connect() {
            let limit = connect_timeout.as_secs_f64();
            let message = format!("no connection to {host} within {limit} s");
            return Failure::other("TIMEOUT", message);
        }
        if let Some(problem) = find::<rustls::Error>(error) {
            let message = format!("no secure connection to {host}: {problem}");
            return Failure::other("TLS", message);
        }
        let last = causes(error).last().map(ToString::to_string).unwrap_or_default();
        if error.is_builder() {
            return Failure::other("INVALID_REQUEST", format!("it cannot be sent: {last}"));
        }
        if error.is_connect() {
            return Failure::other("CONNECT", format!("no connection to {host}: {last}"));
        }
        if error.is_decode() && !is_broken(error) {
            let message = format!("the answer of {host} cannot be unpacked: {last}");
            return Failure::other("BODY", message);
        }
        if is_broken(error) {
            return Failure::other("RESET", format!("{host} broke the connection: {last}"));
        }
        Failure::other("PROTOCOL", format!("{host} does not keep to HTTP: {last}"))
    }
}

impl From<Blocked> for Failure {
    fn from(blocked: Blocked) -> Self {
        Failure::refused("TARGET_NOT_ALLOWED", blocked.to_string())
    }
}

/// The cause of a certain type.
fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// Whether the other side went away in the middle.
fn is_broken(error: &reqwest::Error) -> bool {
    let ended = |error: &hyper::Error| {
        error.is_incomplete_message() || error.is_closed() || error.is_canceled()
    };
    let gone = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        )
    };
    causes(error).any(|cause| {
        cause.downcast_ref().is_some_and(ended) || cause.downcast_ref().is_some_and(gone)
    })
}
