//! State of a job at a time, reconstructed from its changes.

use jiff::Timestamp;

use super::facts::{JobEvent, Subject};
use super::words::{Clock, by};
use crate::audit::Kind;
use crate::job::JobState;

impl<'a> Subject<'a> {
    pub(super) fn clock(&self) -> Clock<'a> {
        Clock { zone: self.zone, now: self.now }
    }

    /// The creation of the job.
    pub(super) fn creation(&self) -> Option<&'a JobEvent> {
        self.events.iter().find(|event| event.kind == Kind::JobCreated)
    }

    /// The change that gave the job the state that it had at a time; none if it is not known.
    pub(super) fn state_at(&self, at: Timestamp) -> Option<(JobState, &'a JobEvent)> {
        let known = self.events.iter().position(|event| event.at <= at)?;
        let state = self.events[known].state?;
        let same = self.events[known..].iter().take_while(|event| event.state == Some(state));
        Some((state, same.last()?))
    }

    /// When the state that the job had at a time ended, and by whose change.
    pub(super) fn state_end(&self, at: Timestamp) -> Option<&'a JobEvent> {
        let (state, _) = self.state_at(at)?;
        let later = self.events.iter().rev().filter(|event| event.at > at);
        later.into_iter().find(|event| event.state != Some(state))
    }

    /// The last change of the schedule.
    pub(super) fn schedule_change(&self) -> Option<&'a JobEvent> {
        self.events.iter().find(|event| event.changed.iter().any(|it| it == "schedule"))
    }

    /// The last change of the definition.
    pub(super) fn definition_change(&self) -> Option<&'a JobEvent> {
        self.events.iter().find(|event| event.changes_definition())
    }

    /// The deletion of the job.
    pub(super) fn deletion(&self) -> Option<&'a JobEvent> {
        let is_deleted = |event: &&JobEvent| {
            event.kind == Kind::JobDeleted || event.state == Some(JobState::Deleted)
        };
        self.events.iter().find(is_deleted)
    }

    /// The last change that gave the job another name, and that name.
    pub(super) fn renaming(&self) -> Option<(&'a JobEvent, &'a str)> {
        self.events.windows(2).find_map(|pair| {
            let [new, old] = pair else { return None };
            (new.name != old.name).then_some((new, old.name.as_str()))
        })
    }

    /// `paused since 10:00:00Z by anna`, with the end of the state if it has ended.
    pub(super) fn state_words(&self, state: JobState, event: &JobEvent) -> String {
        let clock = self.clock();
        let word = state_word(state);
        match self.state_end(event.at) {
            Some(end) => {
                let then = end.state.map_or("changed", state_deed);
                format!(
                    "{word} from {}{} until it was {then} at {}{}",
                    clock.time(event.at),
                    by(&event.actor),
                    clock.time(end.at),
                    by(&end.actor)
                )
            }
            None => format!("{word} since {}{}", clock.time(event.at), by(&event.actor)),
        }
    }
}

/// A state as a word of a sentence.
pub(super) fn state_word(state: JobState) -> &'static str {
    match state {
        JobState::Enabled => "enabled",
        JobState::Paused => "paused",
        JobState::Disabled => "disabled",
        JobState::Completed => "completed",
        JobState::Deleted => "deleted",
    }
}

/// Action of a user that gives a job a state.
fn state_deed(state: JobState) -> &'static str {
    match state {
        JobState::Enabled => "resumed",
        state => state_word(state),
    }
}
