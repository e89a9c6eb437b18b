//! Alerts and their kinds.

use jiff::Timestamp;
use uuid::Uuid;

use crate::id::{JobId, RunId, TenantId};
use crate::run::{Outcome, ReasonCode};

/// An event that may need the attention of an administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The kind of the alert.
    pub kind: AlertKind,
    /// The tenant of the job.
    pub tenant: TenantId,
    /// The job; [`JobId::NONE`] if the alert is not about a job.
    pub job: JobId,
    /// The run, if the alert is about one.
    pub run: Option<RunId>,
    /// The message for people.
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
    /// A tenant has dead letters that were not acknowledged.
    DeadLetters,
    /// The clock of a node differs from the store's.
    ClockOffset,
    /// The settings of a node differ from the leader's.
    SettingsDrift,
    /// All slots of a node were occupied for a while, and runs waited.
    SlotsFull,
    /// The node of a run was lost, and the run waits for a decision.
    RunHeld,
    /// A run was skipped because the jobs that it depends on did not end as required in time.
    UpstreamSkip,
    /// The critical path of a version of a DAG is slower than that of the version before it.
    DagSlower,
    /// A step of a DAG raised it.
    DagAlert,
}

impl AlertKind {
    /// Every kind.
    pub const ALL: [AlertKind; 13] = [
        AlertKind::MaxRetriesExceeded,
        AlertKind::FinalFailure,
        AlertKind::Missed,
        AlertKind::LateStart,
        AlertKind::Recovered,
        AlertKind::DeadLetters,
        AlertKind::ClockOffset,
        AlertKind::SettingsDrift,
        AlertKind::SlotsFull,
        AlertKind::RunHeld,
        AlertKind::UpstreamSkip,
        AlertKind::DagSlower,
        AlertKind::DagAlert,
    ];

    /// The name in every interface.
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
            AlertKind::RunHeld => "RUN_HELD",
            AlertKind::UpstreamSkip => "RUN_SKIPPED_UPSTREAM",
            AlertKind::DagSlower => "DAG_SLOWER",
            AlertKind::DagAlert => "DAG_ALERT",
        }
    }

    /// The kind of alert that the end of a run raises, by its outcome and its reason code.
    pub fn of_end(outcome: Outcome, reason: Option<&str>, is_dead_letter: bool) -> Option<Self> {
        let upstream = [ReasonCode::UpstreamFailed, ReasonCode::UpstreamNotReady];
        let is_upstream = || reason.is_some_and(|it| upstream.iter().any(|code| code.name() == it));
        match outcome {
            _ if is_dead_letter => Some(AlertKind::of_dead_letter(reason)),
            Outcome::Missed => Some(AlertKind::Missed),
            Outcome::Skipped if is_upstream() => Some(AlertKind::UpstreamSkip),
            _ => None,
        }
    }

    /// The kind of alert for a new dead letter, by its reason code.
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

    /// The kind with a stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        AlertKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Alert {
    /// The id of the alert: the same event has the same id, however often it is detected.
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
