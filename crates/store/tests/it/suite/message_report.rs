//! Reports of workers that come again, and reports that come too late.

use domain::id::NodeId;
use domain::run::{AttemptEnd, Outcome, Reason, ReasonCode, RunState};
use jiff::SignedDuration;
use store::{Applied, LeaseRequest, Messages, SettledMessage, Verdict};

use super::message::{done, lease, queue, request, retried, send_of, settle, settled};
use crate::bench::Bench;
use crate::lab::{Lab, seconds};

pub async fn a_report_after_the_lease_is_stale<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let id = send_of(lab, &queue, &["a"]).await[0];
    let over = LeaseRequest { lease: seconds(-1), ..request(&queue, NodeId(lab.id()), 1) };
    let first = lab.store.lease_messages(&over).await.unwrap().messages.remove(0);
    let again = Verdict::Retry { delay: SignedDuration::ZERO };
    settle(lab, &[settled(&queue, &first, again.clone(), AttemptEnd::Lost)]).await;
    for late in [done(&queue, &first), retried(&queue, &first, SignedDuration::ZERO)] {
        assert_eq!(settle(lab, &[late]).await, [Applied::Stale]);
    }
    // The last lease ends too: the message is a dead letter.
    let last = lab.store.lease_messages(&over).await.unwrap().messages.remove(0);
    let reason = Some(Reason { code: ReasonCode::RetriesExhausted, text: "attempt 2 of 2".into() });
    let verdict = Verdict::End { outcome: Outcome::Failed, reason, dead_letter: true };
    let lost = settled(&queue, &last, verdict.clone(), AttemptEnd::Lost);
    assert_eq!(settle(lab, std::slice::from_ref(&lost)).await, [Applied::Ended(Outcome::Failed)]);
    for late in [
        done(&queue, &last),
        retried(&queue, &last, SignedDuration::ZERO),
        settled(&queue, &last, verdict, AttemptEnd::Failed),
    ] {
        assert_eq!(settle(lab, &[late]).await, [Applied::Stale]);
    }
    assert_eq!(settle(lab, &[lost]).await, [Applied::Ended(Outcome::Failed)], "sent again");
    assert_eq!(lab.state(id).await, RunState::Ended(Outcome::Failed));
}

pub async fn a_repeated_release_is_known<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let id = send_of(lab, &queue, &["a"]).await[0];
    let leased = lease(lab, &queue, 1).await.remove(0);
    let release =
        SettledMessage { verdict: Verdict::Release, result: None, ..done(&queue, &leased) };
    let unknown = SettledMessage { fence: Some(leased.fence + 1), ..release.clone() };
    assert_eq!(settle(lab, std::slice::from_ref(&unknown)).await, [Applied::Stale]);
    for _ in 0..2 {
        assert_eq!(settle(lab, std::slice::from_ref(&release)).await, [Applied::Again]);
        assert_eq!(lab.state(id).await, RunState::Queued);
    }
    assert_eq!(settle(lab, &[unknown]).await, [Applied::Stale]);
    assert_eq!(settle(lab, &[done(&queue, &leased)]).await, [Applied::Stale]);
    // Another worker has it: the message stays with that worker.
    let second = lease(lab, &queue, 1).await.remove(0);
    settle(lab, &[release]).await;
    assert_eq!(lab.state(id).await, RunState::Running);
    assert_eq!(settle(lab, &[done(&queue, &second)]).await, [Applied::Ended(Outcome::Completed)]);
}
