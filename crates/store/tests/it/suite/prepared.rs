//! Prepared runs and the next time of a job after a change.

use domain::job::{Job, JobState};
use domain::run::RunState;
use jiff::Timestamp;
use store::{
    Applied, Changed, ClaimRequest, Prepared, RecordPlan, RunFilter, SYSTEM, Store, Verdict,
};

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ids, minutes, processes, question, retried, seconds, stop, untried, want,
    want_soon,
};

/// A job whose ticks 1 (due), 2 and 3 (to come) are planned, and its next time is the fourth.
async fn prepared<B: Bench>(lab: &Lab<B>) -> (Job, [Timestamp; 4]) {
    prepared_as(lab, "report").await
}

async fn prepared_as<B: Bench>(lab: &Lab<B>, name: &str) -> (Job, [Timestamp; 4]) {
    let now = lab.now().await;
    let times = [now - seconds(10), now + minutes(10), now + minutes(20), now + minutes(30)];
    let mut job = lab.draft(name).await;
    job.next_run = Some(times[0]);
    lab.create(&job).await;
    let runs = times[..3].iter().map(|at| lab.tick(&job, *at)).collect();
    let fire = RecordPlan {
        job: job.id,
        version: 1,
        expected_next: times[0],
        new_next: Some(times[3]),
        runs,
        ledger: Vec::new(),
    };
    assert_eq!(lab.store.fire(&[fire]).await.unwrap(), [true]);
    job.next_run = Some(times[3]);
    (job, times)
}

async fn remaining<B: Bench>(lab: &Lab<B>, job: &Job) -> Vec<Timestamp> {
    let page = lab.store.list_runs(&RunFilter::of_job(job.id), None, 10).await.unwrap();
    page.items.iter().rev().map(|run| run.scheduled_for).collect()
}

pub async fn prepared_runs_may_stay<B: Bench>(lab: &Lab<B>) {
    let (mut job, times) = prepared(lab).await;
    job.next_run = None;
    lab.update(&mut job, Prepared::Keep).await;
    assert_eq!(remaining(lab, &job).await, times[..3]);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(times[3]), "as does the next time");
}

pub async fn prepared_runs_may_vanish<B: Bench>(lab: &Lab<B>) {
    let (mut job, times) = prepared(lab).await;
    let asked = lab.run(&job, times[2]);
    lab.submit(std::slice::from_ref(&asked)).await;
    job.next_run = Some(times[3] + minutes(7));
    lab.update(&mut job, Prepared::Drop).await;
    // Due runs and requested runs stay.
    assert_eq!(remaining(lab, &job).await, [times[0], times[2]]);
    assert_eq!(lab.state(asked.id).await, RunState::Pending);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, job.next_run);
}

pub async fn prepared_runs_may_return_to_the_plan<B: Bench>(lab: &Lab<B>) {
    let (mut job, times) = prepared(lab).await;
    job.state = JobState::Paused;
    lab.update(&mut job, Prepared::Return).await;
    assert_eq!(remaining(lab, &job).await, times[..1]);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(times[1]));
    // A second time there is nothing to return.
    job.next_run = None;
    lab.update(&mut job, Prepared::Return).await;
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(times[1]));
}

pub async fn a_conflicting_change_leaves_prepared_runs_alone<B: Bench>(lab: &Lab<B>) {
    let (job, times) = prepared(lab).await;
    let answer = lab.change(&Job { version: 6, ..job.clone() }, Some(5), Prepared::Return).await;
    assert_eq!(answer, Changed::VersionConflict(1));
    assert_eq!(remaining(lab, &job).await, times[..3]);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(times[3]));
}

/// A run that was tried is no prepared run any more, even while it waits for its next attempt.
pub async fn a_run_that_was_tried_is_not_prepared<B: Bench>(lab: &Lab<B>) {
    let (mut job, times) = prepared(lab).await;
    let node = lab.node().await;
    let claimed = lab.claim_one(node).await;
    lab.finish(node, retried(node, &claimed, minutes(5))).await;
    lab.update(&mut job, Prepared::Drop).await;
    assert_eq!(remaining(lab, &job).await, times[..1]);
}

/// A holder of a prepared run that vanished finds out, and its old claim stays invalid when the
/// same tick is planned and claimed again.
pub async fn a_grant_of_a_vanished_run_is_worthless<B: Bench>(lab: &Lab<B>) {
    let (mut job, times) = prepared(lab).await;
    let (node, other) = (lab.node().await, lab.node().await);
    let held = lab.claim(node, want_soon(9)).await;
    assert_eq!(held.len(), 2);
    lab.update(&mut job, Prepared::Return).await;
    let facts = lab.store.facts(node, &[question(&held[0])]).await.unwrap();
    assert!(!facts[0].held);
    assert_eq!(lab.finish(node, completed(node, &held[1])).await, Applied::Stale);
    let live = lab.store.counts().await.unwrap().live;
    assert_eq!((live.queued, live.running, live.pending), (1, 0, 0), "the first is due");
    // The plan is made again; the next claim gets the runs.
    let fire = RecordPlan {
        job: job.id,
        version: job.version,
        expected_next: times[1],
        new_next: Some(times[3]),
        runs: vec![lab.tick(&job, times[1]), lab.tick(&job, times[2])],
        ledger: Vec::new(),
    };
    assert_eq!(lab.store.fire(&[fire]).await.unwrap(), [true]);
    let again = lab.claim(other, want_soon(1)).await;
    assert_eq!(ids(&again), [held[0].grant.run]);
    let mine = lab.claim(node, want_soon(9)).await;
    assert_eq!(ids(&mine), [held[1].grant.run]);
    assert!(mine[0].grant.fence > held[1].grant.fence);
    for old in &held {
        let facts = lab.store.facts(node, &[question(old)]).await.unwrap();
        assert!(!facts[0].held, "an old grant came back to life");
        assert_eq!(lab.finish(node, completed(node, old)).await, Applied::Stale);
        assert_eq!(lab.finish(node, untried(old, Verdict::Release)).await, Applied::Stale);
        assert_eq!(lab.finish(node, retried(node, old, seconds(1))).await, Applied::Stale);
    }
    assert!(lab.store.facts(node, &[question(&mine[0])]).await.unwrap()[0].held);
    assert!(lab.store.facts(other, &[question(&again[0])]).await.unwrap()[0].held);
    assert_eq!(lab.claim(node, want(9)).await.len(), 1, "the tick that was due all along");
}

/// A tick whose nominal time has come is no prepared run any more, though jitter holds it back.
pub async fn a_tick_whose_time_has_come_is_not_prepared<B: Bench>(lab: &Lab<B>) {
    let (mut job, times) = prepared(lab).await;
    let mut jittered = lab.tick(&job, times[0] + seconds(1));
    jittered.due_at = times[1];
    lab.submit(std::slice::from_ref(&jittered)).await;
    lab.update(&mut job, Prepared::Return).await;
    assert_eq!(remaining(lab, &job).await, [times[0], jittered.scheduled_for]);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(times[1]));
}

/// Only a tick that is early can vanish: a node that reads that a run is held and not early may
/// start it, and the run has a record whatever happens to its job.
pub async fn a_tick_is_early_until_its_time_has_come<B: Bench>(lab: &Lab<B>) {
    let (mut job, times) = prepared(lab).await;
    let node = lab.node().await;
    let mut jittered = lab.tick(&job, times[0] + seconds(1));
    jittered.due_at = times[1];
    let by_hand = lab.run(&job, times[1]);
    lab.submit(&[jittered.clone(), by_hand.clone()]).await;
    let held = lab.claim(node, ClaimRequest { due: processes(9), ..want_soon(9) }).await;
    assert_eq!(held.len(), 5);
    let questions: Vec<_> = held.iter().map(question).collect();
    let facts = lab.store.facts(node, &questions).await.unwrap();
    let now = lab.now().await;
    for (held, facts) in held.iter().zip(&facts) {
        assert!(facts.held);
        let is_to_come = times[1..].contains(&held.run.scheduled_for);
        let is_early = is_to_come && held.run.id != by_hand.id;
        assert_eq!(facts.early_by.is_some(), is_early, "{held:?}");
        assert!(facts.early_by.is_none_or(|by| now + by >= held.run.scheduled_for));
    }
    job.state = JobState::Deleted;
    lab.update(&mut job, Prepared::Drop).await;
    for (held, facts) in held.iter().zip(&facts) {
        let applied = lab.finish(node, completed(node, held)).await;
        assert_eq!(applied == Applied::Stale, facts.early_by.is_some(), "{held:?}");
    }
}

/// Ticks that come before one about which something was decided cannot be planned again without
/// planning that one again: they stay.
pub async fn nothing_returns_from_before_a_decision<B: Bench>(lab: &Lab<B>) {
    let (mut job, times) = prepared(lab).await;
    let cancelled = lab.tick(&job, times[1]).id;
    lab.store.cancel(cancelled, &stop(), SYSTEM).await.unwrap();
    lab.update(&mut job, Prepared::Return).await;
    assert_eq!(remaining(lab, &job).await, times[..2]);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(times[2]));
    let (mut job, times) = prepared_as(lab, "held").await;
    let node = lab.node().await;
    lab.claim(node, want_soon(9)).await;
    // The holder has not obeyed yet.
    lab.store.cancel(lab.tick(&job, times[2]).id, &stop(), SYSTEM).await.unwrap();
    lab.update(&mut job, Prepared::Return).await;
    assert_eq!(remaining(lab, &job).await, times[..3]);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(times[3]));
}

/// A schedule cannot end or change while times that it was due at are not planned: they would be
/// lost. The answer is the version that was expected, and the job is as it was.
pub async fn a_schedule_does_not_change_before_it_is_planned<B: Bench>(lab: &Lab<B>) {
    let late = lab.ago(10).await;
    let mut job = lab.draft("report").await;
    job.next_run = Some(late);
    lab.create(&job).await;
    let next_run = Some(lab.now().await + minutes(10));
    let changed = Job { version: 2, next_run, ..job.clone() };
    for prepared in [Prepared::Drop, Prepared::Return] {
        let answer = lab.change(&changed, Some(1), prepared).await;
        assert_eq!(answer, Changed::VersionConflict(1), "{prepared:?}");
        assert_eq!(lab.stored(&job).await, Some(job.clone()));
    }
    // A change that leaves the schedule alone is accepted.
    assert_eq!(lab.change(&changed, Some(1), Prepared::Keep).await, Changed::Done);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(late));
    let planned = RecordPlan {
        job: job.id,
        version: 2,
        expected_next: late,
        new_next: Some(lab.now().await + minutes(5)),
        runs: vec![lab.tick(&job, late)],
        ledger: Vec::new(),
    };
    assert_eq!(lab.store.fire(&[planned]).await.unwrap(), [true]);
    let changed = Job { version: 3, ..changed };
    assert_eq!(lab.change(&changed, Some(2), Prepared::Drop).await, Changed::Done);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, next_run);
}
