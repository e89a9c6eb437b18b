//! The hot path: ends claims and makes new ones, in one transaction and one round trip.
//!
//! ```text
//!   BEGIN ─ node's lock, shared ─ end runs ─ waits, shared ─ wake ─ COMMIT
//!   BEGIN ─ node's lock, shared ─ lock runs ─ waits, alone ─▶ gate ─ begin to wait ─ wake ─ COMMIT
//!   BEGIN ─ node's lock, shared ─ waits, shared ─▶ gate ─ claim ─ COMMIT
//!                                                   └─ one at a time, in the whole cluster
//! ```
//!
//! A run costs one delete and one insert. Taking it costs nothing of its own: a claim is one row
//! for a whole batch, and a run is held if a claim lists it. So that two claims see each other,
//! they pass a gate: a row that a transaction locks before the statement that looks.
//!
//! A lock keeps wake-ups from getting lost. Runs that end share it, before they look for runs that
//! wait; a run that begins to wait has it alone, before it looks whether there still is something
//! to wait for. The second transaction sees the first. Most runs end beside each other like this.
//! Where other jobs depend on one, its ends pass the gate as well: they are compared by fence with
//! what a claim may have missed.
//!
//! The order of all locks is in docs/decisions/023-ends-beside-each-other.md.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use domain::fairness::{AGEING, ROUND, Tier};
use domain::id::{JobId, NodeId};
use domain::run::ClaimedRun;
use domain::slot::SlotKind;
use uuid::Uuid;

use super::finish::Ending;
use super::pipeline::{Pipeline, Value, values};
use super::row::{at, newly_claimed, outcome, signed, span_us, unsigned};
use super::runs::known;
use super::{Shared, first, lock_of};
use crate::{Applied, CHANGED_JOBS_MAX, ClaimRequest, Exchanged, Finish, Result};

/// Size of a large claim.
const FRONT_CLAIM_MIN: i64 = 100;

/// Maximum number of large claims in a row that begin where the one before ended.
const FRONT_LOOKS_MAX: i32 = 8;

/// How much deeper than an even share a claim looks at most.
const DEPTH_MAX: i64 = 1_024;

impl Shared {
    pub(super) async fn complete_and_claim(
        &self,
        node: NodeId,
        done: &[Finish],
        want: ClaimRequest,
    ) -> Result<Exchanged> {
        let fences = fences(want);
        if done.is_empty() && fences == 0 {
            return Ok(Exchanged::at(self.now().await?));
        }
        // Where there was nothing, there mostly is nothing, and then the gate need not be passed.
        let tidy = done.is_empty() && self.holdings().spent().is_empty();
        if tidy && self.dry.load(Ordering::Relaxed) {
            let ahead = if want.soon > 0 { span_us(want.ahead) } else { 0 };
            let is_due = concat!(sql!("lanes"), sql!("claim_due"));
            let due = self.query_one(is_due, values![node.0, ahead]).await?;
            if !due.try_get::<_, bool>(0)? {
                return Ok(Exchanged::at(at(due.try_get(1)?)));
            }
        }
        let claiming = self.claiming.read().await;
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
        let (ending, clock, spent) = {
            let holdings = self.holdings();
            let done = done.iter().collect();
            let mut ending = Ending::before_gate(&mut pipeline, Some(node), &holdings, done);
            let taken = want.due.total();
            let clock = ending.pass_gate(&mut pipeline, Some(node), &holdings, fences, taken);
            (ending, clock, holdings.spent())
        };
        if !spent.is_empty() {
            pipeline.push(sql!("claim_spent"), values![spent.clone()]);
        }
        let depth = SlotKind::ALL.map(|slot| self.depth[slot].load(Ordering::Relaxed));
        let claim = (fences > 0).then(|| claim(&mut pipeline, node, want, depth));
        let changes =
            (fences > 0).then(|| pipeline.push(sql!("job_changed_lately"), changed_lately()));
        let mut answers = match pipeline.commit_new(&self.pool).await? {
            Some(answers) => answers,
            // Another transaction stood in the way, or a run has a record although it is live,
            // which must not keep the others from ending.
            None => {
                let runs: Vec<Uuid> = done.iter().map(|finish| finish.grant.run.0).collect();
                self.query(sql!("run_known"), known(runs)).await?;
                pipeline.commit(&self.pool).await?
            }
        };
        let claimed = claim.into_iter().flat_map(|step| &answers[step]).map(newly_claimed);
        let claimed: Vec<ClaimedRun> = claimed.collect::<Result<_>>()?;
        if claim.is_some() {
            self.dry.store(claimed.is_empty(), Ordering::Relaxed);
        }
        let changed_jobs = changes.into_iter().flat_map(|step| &answers[step]).map(changed_job);
        let changed_jobs = changed_jobs.collect::<Result<_>>()?;
        self.look_deeper(want, &claimed);
        let applied = ending.applied(&answers)?;
        self.settle(node, done, &applied, &spent, &claimed);
        drop(claiming);
        let left_work = ending.left_work(&answers, &claimed)?;
        if left_work || ending.goes_on(&answers) {
            self.signal.send();
        }
        let now = at(first(answers.swap_remove(clock))?.try_get(1)?);
        let applied = self.known(done.iter().collect(), applied).await?;
        let thin = self.holdings().thin();
        self.split(thin).await;
        Ok(Exchanged { applied, claimed, changed_jobs, now, left_work })
    }

    /// Where tenants have much and little work, an even share of each does not fill a claim: the
    /// next one looks deeper, until it does.
    fn look_deeper(&self, want: ClaimRequest, claimed: &[ClaimedRun]) {
        for slot in SlotKind::ALL.into_iter().filter(|slot| want.due[*slot] > 0) {
            let count = claimed.iter().filter(|claimed| claimed.run.slot == slot).count();
            let depth = self.depth[slot].load(Ordering::Relaxed);
            let filled = count >= want.due[slot] as usize;
            let deeper = if filled { depth / 2 } else { depth.saturating_mul(2) };
            self.depth[slot].store(deeper.clamp(1, DEPTH_MAX), Ordering::Relaxed);
        }
    }

    /// Applies the committed changes to the list of holdings.
    pub(super) fn settle(
        &self,
        node: NodeId,
        done: &[Finish],
        applied: &[Option<Applied>],
        spent: &[i64],
        claimed: &[ClaimedRun],
    ) {
        let mut holdings = self.holdings();
        for (finish, _) in done.iter().zip(applied).filter(|(_, applied)| applied.is_some()) {
            holdings.close(finish.grant.fence);
        }
        holdings.cleared(spent);
        if let Some(first) = claimed.first() {
            let runs = claimed.iter().map(|claimed| (claimed.run.id, claimed.run.job)).collect();
            holdings.take(first.grant.fence - 1, node, runs);
        }
    }

    /// A finish without a valid claim was either sent before, or comes too late.
    pub(super) async fn known(
        &self,
        done: Vec<&Finish>,
        applied: Vec<Option<Applied>>,
    ) -> Result<Vec<Applied>> {
        let unknown = done.iter().zip(&applied).filter(|(_, applied)| applied.is_none());
        let (runs, marks): (Vec<Uuid>, Vec<i64>) =
            unknown.map(|(finish, _)| (finish.grant.run.0, finish.mark())).unzip();
        let mut before = HashMap::new();
        if !runs.is_empty() {
            for row in self.query(sql!("finish_known"), values![runs, marks]).await? {
                let mark: i64 = row.try_get(0)?;
                before.insert(mark, Applied::Ended(outcome(row.try_get(1)?)?));
            }
        }
        let answer = |(finish, applied): (&Finish, Option<Applied>)| {
            applied.or_else(|| before.get(&finish.mark()).copied()).unwrap_or(Applied::Stale)
        };
        Ok(done.into_iter().zip(applied).map(answer).collect())
    }
}

/// How many numbers a claim may need.
pub(super) fn fences(want: ClaimRequest) -> i64 {
    i64::from(want.due.total()) + i64::from(want.soon)
}

/// How many due runs of each kind of slot are wanted, in the order of the kinds.
pub(super) fn wanted(want: ClaimRequest) -> Vec<i64> {
    SlotKind::ALL.map(|slot| i64::from(want.due[slot])).to_vec()
}

fn claim(
    pipeline: &mut Pipeline<'_>,
    node: NodeId,
    want: ClaimRequest,
    depth: [i64; SlotKind::ALL.len()],
) -> usize {
    let tenant_max = want.tenant_max.map(signed);
    let values = values![
        node.0,
        wanted(want),
        i64::from(want.soon),
        span_us(want.ahead),
        tenant_max,
        depth.to_vec(),
        FRONT_CLAIM_MIN,
        FRONT_LOOKS_MAX,
        span_us(AGEING),
        signed(Tier::default().weight()),
        ROUND,
    ];
    pipeline.push(concat!(sql!("lanes"), sql!("claim")), values)
}

/// A change of a job is returned with claims for this long: longer than a node caches jobs, and
/// than a change can take from its time to its commit.
const CHANGED_LATELY_US: i64 = 30_000_000;

/// The values of the question which jobs were changed lately.
pub(super) fn changed_lately() -> Vec<Value<'static>> {
    values![CHANGED_LATELY_US, CHANGED_JOBS_MAX as i64 + 1]
}

fn changed_job(row: &tokio_postgres::Row) -> Result<(JobId, u32)> {
    Ok((JobId(row.try_get(0)?), unsigned(row.try_get(1)?)))
}
