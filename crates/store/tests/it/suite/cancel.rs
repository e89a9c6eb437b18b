//! Cancelling: at once when no node holds the run, by its holder otherwise, and for good.

use domain::id::RunId;
use domain::run::{Outcome, ReasonCode, RunState, Wait};
use store::{Applied, Cancelled, SYSTEM, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ended, lost, minutes, question, reason, retried, seconds, skipped, stop,
    untried, want,
};

const CANCELLED: RunState = RunState::Ended(Outcome::Cancelled);

pub async fn a_run_that_nobody_holds_ends_at_once<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let later = lab.run(&job, lab.now().await + minutes(30));
    lab.submit(std::slice::from_ref(&later)).await;
    let retrying = lab.started(node, &job).await;
    lab.finish(node, retried(node, &retrying, minutes(5))).await;
    let waiting = lab.started(node, &job).await;
    lab.finish(node, untried(&waiting, Verdict::Wait(Wait::Overlap, None))).await;
    let queued = lab.due(&job).await;
    for run in [later.id, retrying.run.id, waiting.run.id, queued.id] {
        let why = reason(ReasonCode::Overlap, "a newer one");
        assert_eq!(lab.store.cancel(run, &why, SYSTEM).await.unwrap(), Cancelled::Ended);
        let view = lab.view(run).await;
        assert_eq!(view.state, CANCELLED);
        assert_eq!(view.reason.as_deref(), Some("OVERLAP"));
        assert_eq!(view.reason_text.as_deref(), Some("a newer one"));
        assert!(view.finished_at.is_some() && !view.dead_letter);
        let again = lab.store.cancel(run, &stop(), SYSTEM).await.unwrap();
        assert_eq!(again, Cancelled::EndedBefore(Outcome::Cancelled));
    }
    assert_eq!(lab.claim(node, want(9)).await, []);
    let untouched = lab.view(queued.id).await;
    assert_eq!((untouched.attempts, untouched.fence, untouched.node), (0, None, None));
    // The attempt that was made before is still shown.
    let tried = lab.view(retrying.run.id).await;
    assert_eq!((tried.attempts, tried.fence), (1, Some(retrying.token)));
    assert_eq!(tried.error.as_deref(), Some("EXIT_1"));
    assert_eq!(lab.store.attempts(retrying.run.id).await.unwrap().len(), 1);
}

pub async fn the_holder_is_told<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    let kept = lab.started(node, &job).await;
    let run = claimed.run.id;
    assert_eq!(lab.store.cancel(run, &stop(), SYSTEM).await.unwrap(), Cancelled::Requested(node));
    assert_eq!(lab.state(run).await, RunState::Running);
    for _ in 0..2 {
        let renewed = lab.store.renew(node, minutes(1)).await.unwrap().unwrap();
        assert_eq!(renewed.cancel, [run]);
    }
    assert_eq!(lab.store.renew(other, minutes(1)).await.unwrap().unwrap().cancel, []);
    let facts = lab.store.facts(node, &[question(&claimed), question(&kept)]).await.unwrap();
    assert!(facts[0].held && facts[0].cancel_requested);
    assert!(facts[1].held && !facts[1].cancel_requested);
    assert_eq!(lab.store.cancel(run, &stop(), SYSTEM).await.unwrap(), Cancelled::Requested(node));
    lab.finish(node, ended(node, &claimed, Outcome::Cancelled)).await;
    assert_eq!(lab.store.renew(node, minutes(1)).await.unwrap().unwrap().cancel, []);
}

/// Whatever the holder reports, the run ends as cancelled, with the reason of the request.
pub async fn a_cancelled_run_never_ends_otherwise<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let why = reason(ReasonCode::CancelRequested, "Ada asked for it");
    for outcome in [Outcome::Completed, Outcome::Failed, Outcome::Timeout, Outcome::Skipped] {
        let claimed = lab.started(node, &job).await;
        lab.store.cancel(claimed.run.id, &why, SYSTEM).await.unwrap();
        let mut finish = ended(node, &claimed, outcome);
        if let Verdict::End { reason, dead_letter, .. } = &mut finish.verdict {
            *reason = Some(crate::lab::reason(ReasonCode::RetriesExhausted, "attempt 1 of 1"));
            *dead_letter = true;
        }
        let cancelled = Applied::Ended(Outcome::Cancelled);
        assert_eq!(lab.finish(node, finish.clone()).await, cancelled);
        assert_eq!(lab.finish(node, finish).await, cancelled);
        let view = lab.view(claimed.run.id).await;
        assert_eq!(view.state, CANCELLED);
        assert_eq!(view.reason_text.as_deref(), Some("Ada asked for it"));
        assert!(!view.dead_letter, "nobody needs to look at it");
        assert_eq!(view.attempts, u32::from(outcome != Outcome::Skipped));
    }
}

pub async fn a_cancelled_run_is_not_tried_again<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    lab.store.cancel(claimed.run.id, &stop(), SYSTEM).await.unwrap();
    let finish = retried(node, &claimed, seconds(0));
    assert_eq!(lab.finish(node, finish.clone()).await, Applied::Ended(Outcome::Cancelled));
    assert_eq!(lab.finish(node, finish).await, Applied::Ended(Outcome::Cancelled));
    let view = lab.view(claimed.run.id).await;
    assert_eq!((view.state, view.attempts, view.lost), (CANCELLED, 1, 0));
    assert_eq!(view.message.as_deref(), Some("failed"));
    assert_eq!(lab.store.attempts(claimed.run.id).await.unwrap().len(), 1);
    assert_eq!(lab.claim(node, want(9)).await, []);
}

pub async fn a_cancelled_run_ends_with_its_lost_node<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    lab.store.cancel(claimed.run.id, &stop(), SYSTEM).await.unwrap();
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    let applied = lab.store.settle_lost(&[lost(node, &claimed)]).await.unwrap();
    assert_eq!(applied, [Applied::Ended(Outcome::Cancelled)]);
    let view = lab.view(claimed.run.id).await;
    assert_eq!((view.state, view.attempts, view.lost), (CANCELLED, 0, 1));
}

/// A request survives the holder that gives the run back.
pub async fn a_request_passes_to_the_next_holder<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    lab.started(other, &job).await;
    let claimed = lab.started(node, &job).await;
    lab.store.cancel(claimed.run.id, &stop(), SYSTEM).await.unwrap();
    lab.store.leave(node, &[]).await.unwrap();
    let again = lab.claim_one(other).await;
    assert!(lab.store.facts(other, &[question(&again)]).await.unwrap()[0].cancel_requested);
    let renewed = lab.store.renew(other, minutes(1)).await.unwrap().unwrap();
    assert_eq!(renewed.cancel, [again.run.id]);
    // Nor does it get lost when the holder lets the run wait, unaware of the request.
    lab.finish(other, untried(&again, Verdict::Wait(Wait::Overlap, None))).await;
    if lab.state(again.run.id).await != CANCELLED {
        let last = lab.claim_one(other).await;
        assert!(lab.store.facts(other, &[question(&last)]).await.unwrap()[0].cancel_requested);
        lab.finish(other, skipped(&last, Outcome::Cancelled)).await;
    }
    assert_eq!(lab.state(again.run.id).await, CANCELLED);
}

pub async fn what_has_ended_cannot_be_cancelled<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    for outcome in Outcome::ALL {
        let claimed = lab.started(node, &job).await;
        lab.finish(node, ended(node, &claimed, outcome)).await;
        let before = lab.view(claimed.run.id).await;
        let answer = lab.store.cancel(claimed.run.id, &stop(), SYSTEM).await.unwrap();
        assert_eq!(answer, Cancelled::EndedBefore(outcome));
        assert_eq!(lab.view(claimed.run.id).await, before);
    }
    let unknown = RunId(lab.id());
    assert_eq!(lab.store.cancel(unknown, &stop(), SYSTEM).await.unwrap(), Cancelled::NotFound);
}

/// Many callers at once: each run is either cancelled or completed, and both sides agree on which.
pub async fn a_cancel_that_races_the_end_has_one_answer<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let handle = lab.bench.handle().await;
    for _ in 0..30 {
        let claimed = lab.started(node, &job).await;
        let done = [completed(node, &claimed)];
        let why = stop();
        let (exchanged, cancelled) = tokio::join!(
            lab.store.complete_and_claim(node, &done, store::ClaimRequest::default()),
            handle.cancel(claimed.run.id, &why, SYSTEM)
        );
        let applied = exchanged.unwrap().applied.remove(0);
        let expected = match cancelled.unwrap() {
            Cancelled::Requested(holder) if holder == node => Outcome::Cancelled,
            Cancelled::EndedBefore(Outcome::Completed) => Outcome::Completed,
            other => panic!("{other:?}"),
        };
        assert_eq!(applied, Applied::Ended(expected));
        assert_eq!(lab.state(claimed.run.id).await, RunState::Ended(expected));
    }
}
