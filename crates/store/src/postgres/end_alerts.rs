//! Alerts that ends of runs raise. They are part of the statements that end runs, which are fast
//! because they take whole columns.

use domain::alert::{Alert, AlertKind};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{Outcome, Reason};
use jiff::Timestamp;
use uuid::Uuid;

use super::pipeline::{Pipeline, values};
use super::row::text;

/// Alerts that ends of runs raise, in the transaction that records the ends.
#[derive(Default)]
pub(super) struct EndAlerts {
    id: Vec<Uuid>,
    kind: Vec<&'static str>,
    run: Vec<Uuid>,
    text: Vec<String>,
    outcome: Vec<i16>,
}

impl EndAlerts {
    /// An end, which may be one that raises an alert.
    pub fn push(
        &mut self,
        run: RunId,
        outcome: Outcome,
        reason: Option<&Reason>,
        dead_letter: bool,
    ) {
        let code = reason.map(|reason| reason.code.name());
        let Some(kind) = AlertKind::of_end(outcome, code, dead_letter) else { return };
        let words = reason.map_or_else(String::new, |reason| {
            format!("{outcome} {}: {}", reason.code.name(), reason.text)
        });
        // The identity of an alert about a run does not depend on the rest.
        let identity = Alert {
            kind,
            tenant: TenantId::DEFAULT,
            job: JobId(Uuid::nil()),
            run: Some(run),
            text: String::new(),
            at: Timestamp::UNIX_EPOCH,
        };
        self.id.push(identity.id());
        self.kind.push(kind.name());
        self.run.push(run.0);
        self.text.push(text(&words).into_owned());
        self.outcome.push(i16::from(outcome as u8));
    }

    pub fn into_step(self, pipeline: &mut Pipeline<'_>) {
        if !self.id.is_empty() {
            let values = values![self.id, self.kind, self.run, self.text, self.outcome];
            pipeline.push(sql!("finish_alert"), values);
        }
    }
}
