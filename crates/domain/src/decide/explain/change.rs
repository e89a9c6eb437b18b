//! The values that a change of a job replaced, as short texts.

use jiff::SignedDuration;

use super::facts::JobEvent;
use super::timeline::state_word;
use super::words::{Clock, by, count};
use crate::action::Action;
use crate::job::{Definition, JobState, RetryPolicy, When, policy_of_key};

/// A longer value is cut after so many characters.
const VALUE_CHARS: usize = 80;

impl JobEvent {
    /// Whether more than the state of the job was changed.
    pub fn changes_definition(&self) -> bool {
        self.changed.iter().any(|field| field != "status")
    }

    /// Adds the values that the changed fields had in the version before. A field whose value needs
    /// more than a few words is left out.
    pub fn remember(&mut self, name: &str, state: JobState, old: &Definition) {
        let value = |field: &String| Some((field.clone(), value(field, name, state, old)?));
        self.before = self.changed.iter().filter_map(value).collect();
    }

    /// `schedule changed at 17:03:00Z by admin (was: every 2h)`.
    pub(super) fn words(&self, clock: &Clock<'_>) -> String {
        let was: Vec<String> = match self.changed.len() {
            1 => self.before.iter().map(|(_, value)| value.clone()).collect(),
            _ => self.before.iter().map(|(field, value)| format!("{field} {value}")).collect(),
        };
        let was =
            if was.is_empty() { String::new() } else { format!(" (was: {})", was.join(", ")) };
        let (fields, at) = (self.changed.join(", "), clock.time(self.at));
        format!("{fields} changed at {at}{}{was}", by(&self.actor))
    }
}

/// The value of a field, by its REST name.
fn value(field: &str, name: &str, state: JobState, old: &Definition) -> Option<String> {
    let text = match field {
        "name" => name.to_owned(),
        "status" => state_word(state).to_owned(),
        "schedule" => schedule(&old.when),
        "payload" => action(&old.action),
        "retry_config" => retry(&old.retry),
        "depends_on" => match old.depends_on.len() {
            0 => none(),
            n => count(n as u64, "job"),
        },
        "run_on" if old.run_on.is_empty() => none(),
        "run_on" => old.run_on.to_string(),
        "partition" => old.partition.as_ref().map_or_else(none, |rule| rule.name().to_owned()),
        simple => policy_of_key(simple).map(|(_, policy)| (policy.get)(old).to_string())?,
    };
    Some(cut(&text))
}

fn none() -> String {
    "none".to_owned()
}

/// The first line of a text, as far as it is short.
fn cut(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default().trim_end();
    match line.char_indices().nth(VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.len() < text.trim().len() => format!("{line} …"),
        None => line.to_owned(),
    }
}

/// A length without spaces: `2h`, `1h30m`.
fn length(length: SignedDuration) -> String {
    format!("{length:#}").replace(' ', "")
}

fn schedule(when: &When) -> String {
    match when {
        When::Manual => "on request".to_owned(),
        When::AfterDependencies => "after dependencies".to_owned(),
        When::Cron { expression, zone, .. } if zone == "UTC" => expression.clone(),
        When::Cron { expression, zone, .. } => format!("{expression} {zone}"),
        When::Every { interval, ends: None, .. } => format!("every {}", length(*interval)),
        When::Every { interval, ends: Some(ends), .. } => {
            format!("every {} until {ends}", length(*interval))
        }
        When::At { at } => format!("once at {at}"),
    }
}

fn action(action: &Action) -> String {
    match action {
        Action::Noop => "no action".to_owned(),
        Action::Http(http) => format!("{} {}", http.method, http.endpoint),
        Action::Sql(sql) => sql.sql.clone(),
        Action::Procedure(procedure) => format!("CALL {}", procedure.procedure),
        Action::External(command) => {
            let words = std::iter::once(&command.command).chain(&command.arguments);
            words.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        Action::Backup(backup) => format!("backup to {}", backup.target),
        Action::Queue(send) => format!("a message to queue {}", send.queue),
        Action::Artifact(artifact) => {
            format!("{} of artifact {}", artifact.entrypoint, artifact.artifact_id)
        }
    }
}

fn retry(retry: &RetryPolicy) -> String {
    let backoff = length(retry.backoff);
    format!("{} after {backoff}", count(u64::from(retry.max_attempts), "attempt"))
}
