//! Asking for the end of a run.

use domain::id::{NodeId, RunId};
use domain::run::Reason;
use uuid::Uuid;

use super::finish::Freed;
use super::pipeline::{Pipeline, values};
use super::row::{outcome, text};
use super::{Shared, first};
use crate::author::author;
use crate::{Cancelled, Result};

impl Shared {
    pub(super) async fn cancel(&self, run: RunId, reason: &Reason) -> Result<Cancelled> {
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("run_lock"), values![run.0]);
        pipeline.push(sql!("waits_share"), values![]);
        pipeline.push(sql!("gate"), values![0_i64]);
        let cancel = pipeline
            .push(sql!("run_cancel"), values![run.0, reason.code.name(), text(&reason.text)]);
        let by = text(&author()).into_owned();
        pipeline.push(sql!("audit_cancel"), values![run.0, by, text(&reason.text)]);
        let mut freed = Freed::default();
        if !run.is_part() {
            freed.push(run, None);
        }
        freed.into_step(&mut pipeline, 0);
        let mut answers = pipeline.commit(&self.pool).await?;
        let answer = first(answers.swap_remove(cancel))?;
        let holder: Option<Uuid> = answer.try_get(0)?;
        if let Some(holder) = holder {
            return Ok(Cancelled::Requested(NodeId(holder)));
        }
        if answer.try_get(1)? {
            return Ok(Cancelled::Ended);
        }
        let before: Option<i16> = answer.try_get(2)?;
        Ok(match before {
            Some(before) => Cancelled::EndedBefore(outcome(before)?),
            None => Cancelled::NotFound,
        })
    }
}
