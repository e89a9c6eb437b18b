//! Waits: in the line of a job, for other jobs, and not for ever.

use std::future::Future;
use std::time::Duration;

use domain::job::LostAnswer;
use domain::run::{ClaimedRun, NewRun, Origin, Outcome, RunState, Wait};
use store::{Applied, Cancelled, ClaimRequest, Finish, Prepared, SYSTEM, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ended, ids, lost, minutes, seconds, skipped, stop, untried, want,
};

pub async fn a_waiting_run_is_not_handed_out<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 2).await;
    lab.wait(node, &held[1], Wait::Overlap, None).await;
    assert_eq!(lab.claim(node, want(9)).await, []);
    let view = lab.view(held[1].run.id).await;
    assert_eq!((view.state, view.node, view.attempts), (RunState::Queued, None, 0));
    assert_eq!(lab.store.reap(9).await.unwrap().woken, 0);
}

pub async fn an_end_wakes_the_first_in_line_only<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 4).await;
    // They begin to wait in another order than they stand in line.
    for n in [3, 1, 2] {
        lab.wait(node, &held[n], Wait::Overlap, None).await;
    }
    let mut running = held[0].clone();
    for next in &held[1..] {
        let done = [completed(node, &running)];
        let exchanged = lab.store.complete_and_claim(node, &done, want(9)).await.unwrap();
        assert_eq!(ids(&exchanged.claimed), [next.run.id]);
        let woken = &exchanged.claimed[0];
        assert!(woken.grant.fence > running.grant.fence && woken.grant.turn > next.grant.turn);
        running = woken.clone();
    }
}

pub async fn another_jobs_end_wakes_nobody_in_line<B: Bench>(lab: &Lab<B>) {
    let (node, job, other) = (lab.node().await, lab.job("job").await, lab.job("other").await);
    let held = lab.line(node, &job, 2).await;
    lab.wait(node, &held[1], Wait::Overlap, None).await;
    let stranger = lab.started(node, &other).await;
    let exchanged =
        lab.store.complete_and_claim(node, &[completed(node, &stranger)], want(9)).await.unwrap();
    assert_eq!(exchanged.claimed, []);
}

/// A run that begins to wait although fewer are at work than may be makes the first in line go on:
/// the others ended while it was decided about.
pub async fn places_that_are_free_are_filled<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 7).await;
    let line = |run: &ClaimedRun| untried(run, Verdict::Line { wait: Wait::Overlap, places: 3 });
    let waits = [line(&held[3]), line(&held[4]), line(&held[5])];
    lab.store.complete_and_claim(node, &waits, want(0)).await.unwrap();
    assert_eq!(lab.claim(node, want(9)).await, [], "three are at work");
    // Two ends wake two, of which one is cancelled before it begins.
    let done = [completed(node, &held[0]), completed(node, &held[1])];
    let woken = lab.store.complete_and_claim(node, &done, want(9)).await.unwrap().claimed;
    assert_eq!(ids(&woken), [held[3].run.id, held[4].run.id]);
    let ends =
        [ended(node, &woken[0], Outcome::Cancelled), ended(node, &woken[1], Outcome::Failed)];
    let woken = lab.store.complete_and_claim(node, &ends, want(9)).await.unwrap().claimed;
    assert_eq!(ids(&woken), [held[5].run.id]);
    let end = [completed(node, &woken[0])];
    assert_eq!(lab.store.complete_and_claim(node, &end, want(9)).await.unwrap().claimed, []);
    // One is at work. It saw more, and it need not wait.
    lab.store.complete_and_claim(node, &[line(&held[6])], want(0)).await.unwrap();
    assert_eq!(ids(&lab.claim(node, want(9)).await), [held[6].run.id]);
}

/// A run that waits for a decision may be at work: those behind it rest until it is decided.
pub async fn the_line_behind_a_held_run_rests<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 2).await;
    let mut question = lost(node, &held[0]).1;
    question.verdict = Verdict::Hold { timeout: minutes(9) };
    lab.finish(node, question).await;
    assert_eq!(lab.state(held[0].run.id).await, RunState::Held);
    lab.wait(node, &held[1], Wait::Overlap, None).await;
    assert_eq!(lab.claim(node, want(9)).await, []);
    lab.store.decide(held[0].run.id, LostAnswer::Fail, &stop(), SYSTEM).await.unwrap();
    assert_eq!(ids(&lab.claim(node, want(9)).await), [held[1].run.id]);
}

/// A run whose job was paused before it began goes on with the next change of the job, and with no
/// other event.
pub async fn a_run_outlives_a_pause<B: Bench>(lab: &Lab<B>) {
    let (node, mut job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 2).await;
    lab.wait(node, &held[1], Wait::Pause, None).await;
    assert_eq!(lab.state(held[1].run.id).await, RunState::Pending);
    lab.finish(node, completed(node, &held[0])).await;
    assert_eq!(lab.store.reap(9).await.unwrap().woken, 0);
    assert_eq!(lab.claim(node, want(9)).await, []);
    lab.update(&mut job, Prepared::Keep).await;
    assert_eq!(ids(&lab.claim(node, want(9)).await), [held[1].run.id]);
}

/// Runs that wait for their backfill hold up no other run of the job, and an end wakes the first of
/// each line.
pub async fn a_backfill_waits_in_a_line_of_its_own<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(600).await;
    let runs: Vec<NewRun> = (0..6)
        .map(|n| {
            let origin = if n < 4 { Origin::Backfill } else { Origin::Manual };
            let coalesced = u32::from(n < 4) * 2;
            NewRun { origin, coalesced, ..lab.run(&job, due_at + seconds(n)) }
        })
        .collect();
    lab.submit(&runs).await;
    let held = lab.claim(node, want(9)).await;
    assert_eq!(held[0].run.backfill_limit(), Some(2));
    let line = |run: &ClaimedRun, wait, places| untried(run, Verdict::Line { wait, places });
    // Two of the backfill and a requested run are at work.
    let waits = [
        line(&held[5], Wait::Overlap, 3),
        line(&held[3], Wait::Backfill, 2),
        line(&held[2], Wait::Backfill, 2),
    ];
    let woken = lab.store.complete_and_claim(node, &waits, want(9)).await.unwrap().claimed;
    // The requested run goes on: a run of the backfill stepped aside for it.
    assert_eq!(ids(&woken), [held[5].run.id]);
    let view = lab.view(held[2].run.id).await;
    assert_eq!((view.state, view.wait), (RunState::Queued, Some(Wait::Backfill)));
    assert_eq!((view.coalesced, view.backfill_concurrency), (0, Some(2)));
    assert_eq!(lab.claim(node, want(9)).await, []);
    // The end of a run wakes the first of the backfill, which has to wait again: two are at work.
    let end = [completed(node, &held[4])];
    let woken = lab.store.complete_and_claim(node, &end, want(9)).await.unwrap().claimed;
    assert_eq!(ids(&woken), [held[2].run.id]);
    let again = [line(&woken[0], Wait::Backfill, 2)];
    assert_eq!(lab.store.complete_and_claim(node, &again, want(9)).await.unwrap().claimed, []);
    // Both ended while it was decided that the last one waits: the two places are filled.
    let ends = [completed(node, &held[0]), completed(node, &held[1])];
    let woken = lab.store.complete_and_claim(node, &ends, want(9)).await.unwrap().claimed;
    assert_eq!(ids(&woken), [held[2].run.id, held[3].run.id]);
    let ends = [completed(node, &woken[0]), line(&woken[1], Wait::Backfill, 2)];
    let woken = lab.store.complete_and_claim(node, &ends, want(9)).await.unwrap().claimed;
    assert_eq!(ids(&woken), [held[3].run.id]);
}

/// Two ends in one call wake two.
pub async fn each_end_wakes_one<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 5).await;
    for waiting in &held[2..] {
        lab.wait(node, waiting, Wait::Overlap, None).await;
    }
    let done = [completed(node, &held[0]), ended(node, &held[1], Outcome::Failed)];
    let exchanged = lab.store.complete_and_claim(node, &done, want(9)).await.unwrap();
    assert_eq!(ids(&exchanged.claimed), [held[2].run.id, held[3].run.id]);
}

/// A run wakes the next in whichever way it ends: also cancelled in line, or lost with its node.
pub async fn every_kind_of_end_wakes_the_next<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 4).await;
    let doomed = lab.node().await;
    let last = lab.run(&job, lab.ago(1).await);
    lab.submit(std::slice::from_ref(&last)).await;
    let last = lab.claim_one(node).await;
    for waiting in [&held[1], &held[2], &held[3], &last] {
        lab.wait(node, waiting, Wait::Overlap, None).await;
    }
    assert_eq!(
        lab.finish(node, skipped(&held[0], Outcome::Skipped)).await,
        Applied::Ended(Outcome::Skipped)
    );
    // The woken run is cancelled before any node claims it.
    assert_eq!(lab.store.cancel(held[1].run.id, &stop(), SYSTEM).await.unwrap(), Cancelled::Ended);
    let next = lab.claim_one(doomed).await;
    assert_eq!(next.run.id, held[2].run.id);
    lab.expire(doomed).await;
    lab.store.reap(9).await.unwrap();
    let (_, mut finish) = lost(doomed, &next);
    finish.verdict = Verdict::End { outcome: Outcome::Failed, reason: None, dead_letter: true };
    let applied = lab.store.settle_lost(&[(doomed, finish)]).await.unwrap();
    assert_eq!(applied, [Applied::Ended(Outcome::Failed)]);
    assert_eq!(lab.claim_one(node).await.run.id, held[3].run.id);
    assert_eq!(lab.state(last.run.id).await, RunState::Queued);
}

/// A run that waits for other jobs does not block its line.
pub async fn stepping_aside_wakes_the_next<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 3).await;
    lab.wait(node, &held[1], Wait::Overlap, None).await;
    lab.wait(node, &held[2], Wait::Overlap, None).await;
    lab.wait(node, &held[0], Wait::Upstream, None).await;
    assert_eq!(lab.claim_one(node).await.run.id, held[1].run.id);
}

/// The awaited event may happen before the decision to wait arrives.
pub async fn a_wait_for_what_has_happened_is_none<B: Bench>(lab: &Lab<B>) {
    let (node, other) = (lab.node().await, lab.node().await);
    let upstream = lab.job("upstream").await;
    let job = lab.job_after("job", &[&upstream]).await;
    // For an earlier run of the same job.
    let held = lab.line(node, &job, 2).await;
    lab.finish(node, completed(node, &held[0])).await;
    lab.wait(node, &held[1], Wait::Overlap, None).await;
    let second = lab.claim_one(node).await;
    assert_eq!(second.run.id, held[1].run.id);
    // For another job.
    let cause = lab.started(other, &upstream).await;
    lab.finish(other, completed(other, &cause)).await;
    lab.wait(node, &second, Wait::Upstream, None).await;
    let third = lab.claim_one(node).await;
    assert_eq!(third.run.id, held[1].run.id);
    // Nothing happened since: now it waits.
    lab.wait(node, &third, Wait::Upstream, None).await;
    assert_eq!(lab.claim(node, want(9)).await, []);
}

pub async fn no_wait_is_longer_than_its_limit<B: Bench>(lab: &Lab<B>) {
    let (node, job, other) = (lab.node().await, lab.job("job").await, lab.job("other").await);
    let queued = lab.line(node, &job, 2).await;
    let held = lab.line(node, &other, 2).await;
    let now = lab.now().await;
    lab.wait(node, &queued[1], Wait::Overlap, Some(now - seconds(1))).await;
    lab.wait(node, &held[0], Wait::Upstream, Some(now - seconds(1))).await;
    lab.wait(node, &held[1], Wait::Upstream, Some(now + minutes(30))).await;
    assert_eq!(lab.claim(node, want(9)).await, []);
    assert_eq!(lab.store.reap(9).await.unwrap().woken, 2);
    assert_eq!(lab.store.reap(9).await.unwrap().woken, 0);
    let mut woken = ids(&lab.claim(node, want(9)).await);
    woken.sort();
    let mut expected = [queued[1].run.id, held[0].run.id];
    expected.sort();
    assert_eq!(woken, expected);
}

/// A prepared run that waits, or a due one: waiting changes neither its time nor its place.
pub async fn a_wait_leaves_the_run_as_it_was<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let run = NewRun { parameters: Some("{}".into()), ..lab.tick(&job, lab.ago(9).await) };
    lab.submit(std::slice::from_ref(&run)).await;
    let claimed = lab.claim_one(node).await;
    lab.wait(node, &claimed, Wait::Upstream, Some(lab.ago(1).await)).await;
    lab.store.reap(9).await.unwrap();
    let again = lab.claim_one(node).await;
    assert_eq!((again.run, again.attempts, again.lost), (run, 0, 0));
    let exchanged = lab.store.complete_and_claim(node, &[], ClaimRequest::default()).await.unwrap();
    assert_eq!((exchanged.applied, exchanged.claimed), (vec![], vec![]));
}

/// A node that begins those in line one after the other gets several of them with the end of a run,
/// in their order, and no more than it takes with the same call.
pub async fn the_end_of_a_run_hands_on_as_many_in_line_as_asked_for<B: Bench>(lab: &Lab<B>) {
    for (followers, wanted, expected) in [
        (vec![4], 99, 4),
        (vec![99], 99, 6),
        (vec![99], 3, 3),
        (vec![0], 99, 1),
        (vec![1, 1], 99, 2),
        (vec![1, 4], 99, 4),
        (vec![4, 1, 1], 1, 1),
    ] {
        let (node, job) = (lab.node().await, lab.job(&format!("{followers:?} {wanted}")).await);
        let held = lab.line(node, &job, followers.len() as i64 + 6).await;
        let (ending, waiting) = held.split_at(followers.len());
        for waiting in waiting {
            lab.wait(node, waiting, Wait::Overlap, None).await;
        }
        let done = ending.iter().zip(&followers);
        let done = done.map(|(held, n)| Finish { followers: *n, ..completed(node, held) });
        let done: Vec<Finish> = done.collect();
        let exchanged = lab.store.complete_and_claim(node, &done, want(wanted)).await.unwrap();
        let next: Vec<_> = waiting.iter().map(|held| held.run.id).collect();
        assert_eq!(ids(&exchanged.claimed), next[..expected], "{followers:?} {wanted}");
        // Each end wakes one; another node finds those and no more.
        let others = followers.len().saturating_sub(expected);
        let left = ids(&lab.claim(lab.node().await, want(99)).await);
        assert_eq!(left, next[expected..expected + others], "{followers:?} {wanted}");
        assert_eq!(exchanged.left_work, others > 0, "{followers:?} {wanted}");
    }
}

/// A node that ends a run and takes none leaves the next in line to the others, one for each end.
pub async fn a_node_that_takes_nothing_leaves_one_in_line_and_says_so<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 4).await;
    for waiting in &held[1..] {
        lab.wait(node, waiting, Wait::Overlap, None).await;
    }
    let mut hint = std::pin::pin!(lab.store.changed());
    let is_pending = std::future::poll_fn(|context| {
        std::task::Poll::Ready(hint.as_mut().poll(context).is_pending())
    });
    assert!(is_pending.await, "nothing has happened yet");
    let done = [Finish { followers: 3, ..completed(node, &held[0]) }];
    let exchanged =
        lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    assert!(exchanged.left_work);
    tokio::time::timeout(Duration::from_secs(30), hint).await.expect("a hint");
    let other = lab.node().await;
    assert_eq!(ids(&lab.claim(other, want(9)).await), [held[1].run.id]);
}

/// An event that can end a wait.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WakeEvent {
    /// Another version of its job.
    Change,
    /// The time of the wait is over.
    Time,
    /// Another run of the job has ended.
    End,
}

/// The waits that an event ends are those of the rules of the domain, on every database. A wait for
/// parts is not among the cases: it ends with them.
pub async fn a_wait_ends_with_the_events_of_its_kind<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let waits = Wait::ALL.into_iter().filter(|wait| *wait != Wait::Parts);
    let cases = waits.flat_map(|wait| {
        [
            (wait, WakeEvent::Change, wait.ends_with_change()),
            (wait, WakeEvent::Time, wait.ends_with_time()),
            (wait, WakeEvent::End, matches!(wait, Wait::Overlap | Wait::Backfill)),
        ]
    });
    for (wait, event, is_woken) in cases {
        let name = format!("{wait:?} {event:?}");
        let mut job = lab.job(&name).await;
        let due_at = lab.ago(600).await;
        let origin = if wait == Wait::Backfill { Origin::Backfill } else { Origin::Manual };
        let run = |n| NewRun { origin, ..lab.run(&job, due_at + seconds(n)) };
        lab.submit(&[run(0), run(1)]).await;
        let held = lab.claim(node, want(9)).await;
        let is_timed = event == WakeEvent::Time;
        let verdict = match wait {
            Wait::Decision => Verdict::Hold { timeout: minutes(if is_timed { -1 } else { 9 }) },
            wait => Verdict::Wait(wait, is_timed.then_some(lab.ago(1).await)),
        };
        assert_eq!(lab.finish(node, untried(&held[1], verdict)).await, Applied::Again, "{name}");
        assert_eq!(lab.claim(node, want(9)).await, [], "{name}: it waits");
        match event {
            WakeEvent::Change => lab.update(&mut job, Prepared::Keep).await,
            WakeEvent::Time => {
                let reaped = lab.store.reap(9).await.unwrap();
                assert_eq!(reaped.undecided.is_empty(), is_woken, "{name}");
            }
            WakeEvent::End => {
                lab.finish(node, completed(node, &held[0])).await;
            }
        }
        let woken = lab.claim(node, want(9)).await;
        let expected = if is_woken { vec![held[1].run.id] } else { Vec::new() };
        assert_eq!(ids(&woken), expected, "{name}");
        // Nothing is left for the next case.
        lab.finish(node, completed(node, &held[0])).await;
        for woken in woken {
            lab.finish(node, completed(node, &woken)).await;
        }
        lab.store.cancel(held[1].run.id, &stop(), SYSTEM).await.unwrap();
    }
}
