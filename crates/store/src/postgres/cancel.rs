//! Asking for the end of a run.

use domain::id::{NodeId, RunId};
use domain::job::LostAnswer;
use domain::run::Reason;
use uuid::Uuid;

use super::finish::Freed;
use super::pipeline::{Pipeline, values};
use super::row::{outcome, text};
use super::{Shared, first};
use crate::{Cancelled, Decided, Result, StoreError};

/// How often a cancellation begins anew because the run began or ceased to wait meanwhile.
const TRIES_MAX: u32 = 16;

impl Shared {
    pub(super) async fn cancel(&self, run: RunId, reason: &Reason, by: &str) -> Result<Cancelled> {
        for _ in 0..TRIES_MAX {
            // Whether a run waits for something other than its time.
            let sql = "SELECT wait <> 0 FROM runs WHERE id = $1";
            let found = self.query(sql, values![run.0]).await?;
            let waits = found.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false);
            if let Some(cancelled) = self.try_cancel(run, reason, waits, by).await? {
                return Ok(cancelled);
            }
        }
        Err(StoreError::Unavailable("the run changes too often to be cancelled".to_owned()))
    }

    /// Decides about a run that is HELD.
    pub(super) async fn decide(
        &self,
        run: RunId,
        answer: LostAnswer,
        reason: &Reason,
        by: &str,
    ) -> Result<Decided> {
        let decided = Decided::from_answer(answer);
        let ends = match decided {
            Decided::Ended(outcome) => Some(i16::from(outcome as u8)),
            Decided::Again | Decided::NotHeld => None,
        };
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("waits_alone"), values![]);
        pipeline.push(sql!("gate"), values![0_i64]);
        let values = values![run.0, ends, reason.code.name(), text(&reason.text)];
        let step = pipeline.push(sql!("run_decide"), values);
        let by = text(by).into_owned();
        let values = values![run.0, by, text(&reason.text), answer.name()];
        pipeline.push(sql!("audit_decide"), values);
        let mut freed = Freed::default();
        if !run.is_part() {
            freed.push(run, None);
        }
        freed.into_step(&mut pipeline, 0);
        let mut answers = pipeline.commit(&self.pool).await?;
        let is_done: bool = first(answers.swap_remove(step))?.try_get(0)?;
        if is_done {
            self.signal.send();
        }
        Ok(if is_done { decided } else { Decided::NotHeld })
    }

    /// Cancels a run that waits for something other than its time, or one that does not. They are
    /// locked in different places of the order (docs/decisions/023-ends-beside-each-other.md).
    /// None when the run is of the other kind by now.
    async fn try_cancel(
        &self,
        run: RunId,
        reason: &Reason,
        waits: bool,
        by: &str,
    ) -> Result<Option<Cancelled>> {
        let mut pipeline = Pipeline::default();
        if waits {
            pipeline.push(sql!("waits_alone"), values![]);
        } else {
            pipeline.push(sql!("run_lock"), values![vec![run.0]]);
            pipeline.push(sql!("waits_share"), values![]);
        }
        pipeline.push(sql!("gate"), values![0_i64]);
        let values = values![run.0, reason.code.name(), text(&reason.text), waits];
        let cancel = pipeline.push(sql!("run_cancel"), values);
        let by = text(by).into_owned();
        pipeline.push(sql!("audit_cancel"), values![run.0, by, text(&reason.text)]);
        let mut freed = Freed::default();
        if !run.is_part() {
            freed.push(run, None);
        }
        freed.into_step(&mut pipeline, 0);
        let mut answers = pipeline.commit(&self.pool).await?;
        let answer = first(answers.swap_remove(cancel))?;
        if answer.try_get(3)? {
            return Ok(None);
        }
        let holder: Option<Uuid> = answer.try_get(0)?;
        if let Some(holder) = holder {
            return Ok(Some(Cancelled::Requested(NodeId(holder))));
        }
        if answer.try_get(1)? {
            return Ok(Some(Cancelled::Ended));
        }
        let before: Option<i16> = answer.try_get(2)?;
        Ok(Some(match before {
            Some(before) => Cancelled::EndedBefore(outcome(before)?),
            None if answer.try_get(4)? => Cancelled::HasSteps,
            None => Cancelled::NotFound,
        }))
    }
}
