//! The table of run states: each of its rows happens, and what happens is a row of it.

use std::future::Future;

use domain::id::{NodeId, RunId};
use domain::job::{Job, LostAnswer};
use domain::partition::part_again;
use domain::run::{Event, NewRun, Outcome, RunState, TRANSITIONS, Wait};
use store::{ClaimRequest, Finish, ParentRun, SYSTEM, Shards, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ended, lost, minutes, retried, seconds, skipped, stop, untried, want, want_soon,
};

/// Transitions that were observed.
struct Seen<'l, B: Bench> {
    lab: &'l Lab<B>,
    node: NodeId,
    job: Job,
    rows: Vec<(RunState, Event, RunState)>,
}

impl<B: Bench> Seen<'_, B> {
    /// Something happens to a run.
    async fn step<T>(&mut self, run: RunId, event: Event, act: impl Future<Output = T>) -> T {
        let from = self.lab.state(run).await;
        let done = act.await;
        let to = self.lab.state(run).await;
        assert!(from.may_become(event, to), "{from} to {to}: {event}");
        self.rows.push((from, event, to));
        done
    }

    /// The end of a claim.
    async fn finish(&mut self, event: Event, finish: Finish) {
        let (lab, node) = (self.lab, self.node);
        self.step(finish.grant.run, event, lab.finish(node, finish)).await;
    }

    /// A run that is due so many seconds from now, or was.
    async fn submitted(&self, due_in: i64) -> NewRun {
        let run = self.lab.run(&self.job, self.lab.now().await + seconds(due_in));
        self.lab.submit(std::slice::from_ref(&run)).await;
        run
    }

    async fn claim(&mut self, run: &NewRun, want: ClaimRequest) -> domain::run::ClaimedRun {
        let (lab, node) = (self.lab, self.node);
        let claimed = self.step(run.id, Event::Claim, lab.claim(node, want)).await;
        assert_eq!(claimed.len(), 1);
        claimed[0].clone()
    }

    async fn started(&mut self) -> domain::run::ClaimedRun {
        let run = self.submitted(-60).await;
        self.claim(&run, want(1)).await
    }
}

pub async fn the_table_of_transitions_is_the_one_in_force<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let mut seen = Seen { lab, node, job, rows: Vec::new() };
    cancelled(&mut seen).await;
    prepared(&mut seen).await;
    given_back(&mut seen).await;
    split(&mut seen).await;
    held(&mut seen).await;
    for outcome in Outcome::ALL {
        let claimed = seen.started().await;
        let finish = match outcome {
            Outcome::Skipped | Outcome::Missed => skipped(&claimed, outcome),
            _ => ended(node, &claimed, outcome),
        };
        seen.finish(Event::End(outcome), finish).await;
    }
    for row in TRANSITIONS {
        assert!(seen.rows.contains(row), "{} to {} did not happen: {}", row.0, row.2, row.1);
    }
}

async fn cancelled<B: Bench>(seen: &mut Seen<'_, B>) {
    let lab = seen.lab;
    for due_in in [-60, 3_600] {
        let run = seen.submitted(due_in).await;
        let cancel = async { lab.store.cancel(run.id, &stop(), SYSTEM).await.unwrap() };
        seen.step(run.id, Event::End(Outcome::Cancelled), cancel).await;
    }
}

async fn prepared<B: Bench>(seen: &mut Seen<'_, B>) {
    let (lab, node) = (seen.lab, seen.node);
    let run = seen.submitted(300).await;
    let claimed = seen.claim(&run, want_soon(1)).await;
    seen.finish(Event::Release, untried(&claimed, Verdict::Release)).await;
    lab.store.cancel(run.id, &stop(), SYSTEM).await.unwrap();
    // Its time comes while a node holds it, or while no node does.
    for is_held in [true, false] {
        let run = seen.submitted(1).await;
        if is_held {
            seen.claim(&run, want_soon(1)).await;
        }
        seen.step(run.id, Event::Ready, lab.bench.reach(run.due_at)).await;
        let claimed = match is_held {
            true => lab.store.held(node).await.unwrap().remove(0),
            false => seen.claim(&run, want(1)).await,
        };
        lab.finish(node, completed(node, &claimed)).await;
    }
}

async fn given_back<B: Bench>(seen: &mut Seen<'_, B>) {
    let (lab, node) = (seen.lab, seen.node);
    let claimed = seen.started().await;
    seen.finish(Event::Release, untried(&claimed, Verdict::Release)).await;
    let claimed = seen.claim(&claimed.run, want(1)).await;
    seen.finish(Event::Retry, retried(node, &claimed, seconds(0))).await;
    let claimed = seen.claim(&claimed.run, want(1)).await;
    seen.finish(Event::Retry, retried(node, &claimed, minutes(9))).await;
    lab.store.cancel(claimed.run.id, &stop(), SYSTEM).await.unwrap();
    // One waits for a majority of the schedulers.
    let claimed = seen.started().await;
    let until = Some(lab.now().await + minutes(9));
    seen.finish(Event::Wait, untried(&claimed, Verdict::Wait(Wait::Quorum, until))).await;
    lab.store.cancel(claimed.run.id, &stop(), SYSTEM).await.unwrap();
    // One waits for the one before it in line.
    let held = lab.line(node, &seen.job, 2).await;
    let wait = untried(&held[1], Verdict::Wait(Wait::Overlap, None));
    seen.finish(Event::Wait, wait).await;
    let done = completed(node, &held[0]);
    seen.step(held[1].run.id, Event::Ready, lab.finish(node, done)).await;
    // The other has ended meanwhile: there is nothing left to wait for.
    let claimed = seen.claim(&held[1].run, want(1)).await;
    let wait = untried(&claimed, Verdict::Wait(Wait::Overlap, None));
    seen.finish(Event::Wait, wait).await;
    let claimed = seen.claim(&held[1].run, want(1)).await;
    lab.finish(node, completed(node, &claimed)).await;
}

/// The node of a run is lost, and the job asks an operator to decide.
async fn held<B: Bench>(seen: &mut Seen<'_, B>) {
    let (lab, node) = (seen.lab, seen.node);
    for answer in
        [None, Some(LostAnswer::Retry), Some(LostAnswer::Fail), Some(LostAnswer::Complete)]
    {
        let claimed = seen.started().await;
        let (_, mut finish) = lost(node, &claimed);
        finish.verdict = Verdict::Hold { timeout: minutes(9) };
        seen.finish(Event::Hold, finish).await;
        let run = claimed.run.id;
        match answer {
            None => {
                let cancel = async { lab.store.cancel(run, &stop(), SYSTEM).await.unwrap() };
                seen.step(run, Event::End(Outcome::Cancelled), cancel).await;
            }
            Some(answer) => {
                let event = match answer {
                    LostAnswer::Retry => Event::Ready,
                    LostAnswer::Fail => Event::End(Outcome::Failed),
                    LostAnswer::Complete => Event::End(Outcome::Completed),
                };
                let decide =
                    async { lab.store.decide(run, answer, &stop(), SYSTEM).await.unwrap() };
                seen.step(run, event, decide).await;
                if answer == LostAnswer::Retry {
                    let claimed = seen.claim(&claimed.run, want(1)).await;
                    lab.finish(node, completed(node, &claimed)).await;
                }
            }
        }
    }
}

async fn split<B: Bench>(seen: &mut Seen<'_, B>) {
    let (lab, node) = (seen.lab, seen.node);
    let whole = seen.started().await;
    let part = part_again(&whole.run, 0, "", None, lab.now().await);
    let parts = std::slice::from_ref(&part);
    assert!(lab.store.split_run(ParentRun::Held(node, whole.grant), parts).await.unwrap());
    let wait = untried(&whole, Verdict::Wait(Wait::Parts, None));
    seen.finish(Event::Wait, wait).await;
    let claimed = lab.claim_one(node).await;
    assert_eq!(claimed.run.id, part.id);
    let done = completed(node, &claimed);
    let last_part_ends = async {
        lab.finish(node, done).await;
        assert_eq!(lab.store.wake_split(&[part.id]).await.unwrap(), 1);
    };
    seen.step(whole.run.id, Event::Ready, last_part_ends).await;
    let whole = seen.claim(&whole.run, want(1)).await;
    lab.finish(node, completed(node, &whole)).await;
}
