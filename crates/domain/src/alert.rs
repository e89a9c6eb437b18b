//! What somebody should be told about.

use jiff::Timestamp;
use uuid::Uuid;

use crate::id::{JobId, RunId, TenantId};
use crate::run::ReasonCode;

/// Something that happened and that a person may have to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// What happened.
    pub kind: AlertKind,
    /// Whose job it concerns.
    pub tenant: TenantId,
    /// The job; [`JobId::NONE`] when it concerns none in particular.
    pub job: JobId,
    /// The run, when one is concerned.
    pub run: Option<RunId>,
    /// What a person should read.
    pub text: String,
    /// When it happened.
    pub at: Timestamp,
}

/// The kinds of alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlertKind {
    /// A run used up its retries and is a dead letter.
    MaxRetriesExceeded,
    /// A run failed and is not retried, though attempts were left: it is a dead letter.
    FinalFailure,
    /// A run could not start before its deadline.
    Missed,
    /// A run started much later than it was due.
    LateStart,
    /// A job that had failed completed again.
    Recovered,
    /// Dead letters of a tenant wait for somebody to look at them.
    DeadLetters,
    /// A node's clock is not the store's.
    ClockOffset,
    /// A node runs with other settings than the node that leads.
    SettingsDrift,
    /// All slots of a node were taken for a while, and runs waited for one.
    SlotsFull,
}

impl AlertKind {
    /// Every kind.
    pub const ALL: [AlertKind; 9] = [
        AlertKind::MaxRetriesExceeded,
        AlertKind::FinalFailure,
        AlertKind::Missed,
        AlertKind::LateStart,
        AlertKind::Recovered,
        AlertKind::DeadLetters,
        AlertKind::ClockOffset,
        AlertKind::SettingsDrift,
        AlertKind::SlotsFull,
    ];

    /// The name at every door.
    pub fn name(self) -> &'static str {
        match self {
            AlertKind::MaxRetriesExceeded => "JOB_MAX_RETRIES_EXCEEDED",
            AlertKind::FinalFailure => "JOB_FAILED",
            AlertKind::Missed => "RUN_MISSED",
            AlertKind::LateStart => "RUN_LATE",
            AlertKind::Recovered => "JOB_RECOVERED",
            AlertKind::DeadLetters => "DEAD_LETTERS_WAITING",
            AlertKind::ClockOffset => "NODE_CLOCK_OFFSET",
            AlertKind::SettingsDrift => "NODE_SETTINGS_DRIFT",
            AlertKind::SlotsFull => "NODE_SLOTS_FULL",
        }
    }

    /// The kind of alert that a new dead letter raises, by the code of its reason.
    pub fn of_dead_letter(reason: Option<&str>) -> Self {
        match reason {
            Some(code) if code != ReasonCode::RetriesExhausted.name() => AlertKind::FinalFailure,
            _ => AlertKind::MaxRetriesExceeded,
        }
    }

    /// Whether the job has failed. Such an alert is open until the job completes again.
    pub fn is_failure(self) -> bool {
        matches!(self, AlertKind::MaxRetriesExceeded | AlertKind::FinalFailure)
    }

    /// The kind of a name that a store kept.
    pub fn from_name(name: &str) -> Option<Self> {
        AlertKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Alert {
    /// The alert's identity: the same event gives the same one, however often it is noticed.
    pub fn id(&self) -> Uuid {
        let subject = match (self.run, self.job) {
            (Some(run), _) => run.0,
            (None, JobId::NONE) => self.tenant.0,
            (None, job) => job.0,
        };
        let name = match self.run {
            Some(_) => self.kind.name().to_owned(),
            None => format!("{} {}", self.kind.name(), self.at.as_microsecond()),
        };
        Uuid::new_v5(&subject, name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_one_identity() {
        let alert = |kind, run, at| Alert {
            kind,
            tenant: TenantId::DEFAULT,
            job: JobId(Uuid::from_u128(1)),
            run,
            text: String::new(),
            at: Timestamp::from_second(at).unwrap(),
        };
        let run = Some(RunId(Uuid::from_u128(2)));
        assert_eq!(alert(AlertKind::Missed, run, 1).id(), alert(AlertKind::Missed, run, 2).id());
        assert_ne!(alert(AlertKind::Missed, run, 1).id(), alert(AlertKind::LateStart, run, 1).id());
        assert_ne!(
            alert(AlertKind::Recovered, None, 1).id(),
            alert(AlertKind::Recovered, None, 2).id()
        );
        let of_tenant =
            |tenant| Alert { tenant, job: JobId::NONE, ..alert(AlertKind::DeadLetters, None, 1) };
        assert_ne!(of_tenant(TenantId::DEFAULT).id(), of_tenant(TenantId(Uuid::from_u128(7))).id());
        for kind in AlertKind::ALL {
            assert_eq!(AlertKind::from_name(kind.name()), Some(kind));
        }
    }

    #[test]
    fn only_used_up_retries_raise_the_alert_about_retries() {
        for (reason, kind) in [
            (Some(ReasonCode::RetriesExhausted), AlertKind::MaxRetriesExceeded),
            (Some(ReasonCode::NotRetryable), AlertKind::FinalFailure),
            (Some(ReasonCode::Lost), AlertKind::FinalFailure),
            (Some(ReasonCode::PartsFailed), AlertKind::FinalFailure),
            (None, AlertKind::MaxRetriesExceeded),
        ] {
            assert_eq!(AlertKind::of_dead_letter(reason.map(ReasonCode::name)), kind, "{reason:?}");
            assert!(kind.is_failure());
        }
    }
}
