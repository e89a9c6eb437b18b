//! Times, lengths and errors as a person reads them.

use jiff::{SignedDuration, Timestamp};

use super::facts::RunFacts;
use crate::run::Outcome;
use crate::schedule::{Outage, Zone};

/// Writes times in the zone of a job. A time of the present day is written without its date.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock<'a> {
    pub zone: &'a Zone,
    pub now: Timestamp,
}

impl Clock<'_> {
    /// A time to the second, or as exact as it is.
    pub fn time(&self, at: Timestamp) -> String {
        let zone = self.zone.time_zone();
        let (there, here) = (at.to_zoned(zone.clone()), self.now.to_zoned(zone.clone()));
        let offset = match there.offset().is_zero() {
            true => "Z".to_owned(),
            false => there.strftime("%:z").to_string(),
        };
        let form = if there.date() == here.date() { "%H:%M:%S" } else { "%Y-%m-%dT%H:%M:%S" };
        format!("{}{offset}", there.strftime(form))
    }

    /// A period. The date of its end is left out if it is that of its beginning.
    pub fn period(&self, since: Timestamp, until: Timestamp) -> String {
        format!("from {} to {}", self.time(since), self.time(until))
    }

    /// A time without a server. It began within some seconds after the last heartbeat.
    pub fn outage(&self, outage: &Outage) -> String {
        let (since, until) = (self.time(outage.since), self.time(outage.until));
        format!(
            "no server was running: the last heartbeat was at {since}, the next start at {until}"
        )
    }
}

/// A length: tenths of a second below ten seconds, whole seconds above.
pub fn short(length: SignedDuration) -> String {
    let length = length.max(SignedDuration::ZERO);
    match length.as_secs() {
        0..10 => format!("{:.1} s", length.as_secs_f64()),
        10..60 => format!("{} s", length.as_secs()),
        // Two days and more: hours are exact enough.
        172_800.. => {
            let hours = length.as_hours();
            format!("{} d {} h", hours / 24, hours % 24)
        }
        _ => format!("{:#}", SignedDuration::from_secs(length.as_secs())),
    }
}

/// A noun with its number.
pub(super) fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

/// The names of signals that end commands.
const SIGNALS: [(u32, &str); 12] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
    (31, "SIGSYS"),
];

/// An error code in words: `EXIT_5` is `exit code 5`.
pub fn error_words(code: &str) -> String {
    let Some((kind, value)) = code.split_once('_') else { return code.to_owned() };
    match kind {
        "EXIT" => format!("exit code {value}"),
        "HTTP" if value.bytes().all(|it| it.is_ascii_digit()) => format!("HTTP status {value}"),
        "SQLSTATE" => format!("SQLSTATE {value}"),
        "SIGNAL" => {
            let number = value.parse().ok();
            let name = SIGNALS.iter().find(|(it, _)| Some(*it) == number);
            name.map_or_else(
                || format!("signal {value}"),
                |(_, it)| format!("signal {value} ({it})"),
            )
        }
        _ => code.to_owned(),
    }
}

/// An error and its message; none if neither is known. A message that contains the error is enough.
pub(super) fn error_text(error: Option<&str>, message: Option<&str>) -> Option<String> {
    let message = message.map(str::trim).filter(|message| !message.is_empty());
    let Some(code) = error else { return message.map(str::to_owned) };
    let words = error_words(code);
    Some(match message {
        Some(message) if message.to_lowercase().contains(&words.to_lowercase()) => {
            message.to_owned()
        }
        Some(message) => format!("{words}: {message}"),
        None => words,
    })
}

/// The error of the last attempt of a run.
pub(super) fn last_error(run: &RunFacts) -> Option<String> {
    error_text(run.error.as_deref(), run.message.as_deref())
}

/// `on node a`, or nothing.
pub(super) fn on_node(node: Option<&str>) -> String {
    node.map(|node| format!(" on node {node}")).unwrap_or_default()
}

/// `by anna`, or nothing for what no user did.
pub(super) fn by(actor: &str) -> String {
    match actor {
        "" | "punctual" => String::new(),
        actor => format!(" by {actor}"),
    }
}

/// Whether an outcome is a run that was executed or cancelled, not a time without a run.
pub(super) fn has_run(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Skipped | Outcome::Missed)
}
