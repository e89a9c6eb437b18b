//! Firing: a plan is recorded once, and only if the job is unchanged since.

use std::sync::Arc;

use domain::bucket::Buckets;
use domain::job::{Job, JobState};
use domain::run::{LedgerEntry, Outcome, ReasonCode, RunState};
use jiff::Timestamp;
use store::{Cancelled, Prepared, RecordPlan, RunFilter, SYSTEM, Store};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::lab::{Lab, completed, ids, ids_of, minutes, reason, seconds, stop, want};

/// A job that is due, and the plan of its next three ticks.
async fn planned<B: Bench>(lab: &Lab<B>, name: &str) -> (Job, RecordPlan) {
    let first = lab.ago(60).await;
    let mut job = lab.draft(name).await;
    job.next_run = Some(first);
    lab.create(&job).await;
    let fire = RecordPlan {
        job: job.id,
        version: job.version,
        expected_next: first,
        new_next: Some(first + seconds(30)),
        runs: (0..3).map(|n| lab.tick(&job, first + seconds(10 * n))).collect(),
        ledger: Vec::new(),
    };
    (job, fire)
}

fn entry(job: &Job, first: Timestamp, last: Timestamp, count: u64) -> LedgerEntry {
    LedgerEntry {
        id: domain::id::RunId::of_tick(job.id, first, ""),
        job: job.id,
        tenant: job.tenant,
        job_version: job.version,
        first,
        last,
        count,
        outcome: Outcome::Missed,
        reason: reason(ReasonCode::CatchUp, "the machine was off"),
    }
}

async fn runs_of<B: Bench>(lab: &Lab<B>, job: &Job) -> usize {
    lab.store.list_runs(&RunFilter::of_job(job.id), None, 100).await.unwrap().items.len()
}

pub async fn a_plan_is_recorded_and_the_next_time_moves<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (job, fire) = planned(lab, "job").await;
    assert_eq!(lab.store.fire(std::slice::from_ref(&fire)).await.unwrap(), [true]);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, fire.new_next);
    let claimed = lab.claim(node, want(9)).await;
    assert_eq!(ids(&claimed), ids_of(&fire.runs));
    assert!(claimed.iter().zip(&fire.runs).all(|(claimed, run)| claimed.run == *run));
}

pub async fn a_job_may_have_no_next_time<B: Bench>(lab: &Lab<B>) {
    let (job, fire) = planned(lab, "job").await;
    let fire = RecordPlan { new_next: None, ..fire };
    assert_eq!(lab.store.fire(std::slice::from_ref(&fire)).await.unwrap(), [true]);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, None);
    assert!(lab.store.due_jobs(seconds(3_600), 9, &Buckets::ALL).await.unwrap().jobs.is_empty());
    assert_eq!(lab.store.fire(&[fire]).await.unwrap(), [false]);
}

pub async fn a_plan_that_is_sent_again_changes_nothing<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (job, fire) = planned(lab, "job").await;
    lab.store.fire(std::slice::from_ref(&fire)).await.unwrap();
    assert_eq!(lab.store.fire(std::slice::from_ref(&fire)).await.unwrap(), [false]);
    for claimed in lab.claim(node, want(9)).await {
        lab.finish(node, completed(node, &claimed)).await;
    }
    assert_eq!(lab.store.fire(std::slice::from_ref(&fire)).await.unwrap(), [false]);
    assert_eq!(lab.claim(node, want(9)).await, []);
    assert_eq!(runs_of(lab, &job).await, 3);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, fire.new_next);
}

pub async fn a_plan_of_another_time_or_version_is_refused<B: Bench>(lab: &Lab<B>) {
    let (job, fire) = planned(lab, "job").await;
    let wrong = [
        RecordPlan { expected_next: fire.expected_next - seconds(1), ..fire.clone() },
        RecordPlan { version: fire.version + 1, ..fire.clone() },
        RecordPlan { version: fire.version - 1, ..fire.clone() },
        RecordPlan { job: domain::id::JobId(lab.id()), ..fire.clone() },
    ];
    assert_eq!(lab.store.fire(&wrong).await.unwrap(), [false; 4]);
    assert_eq!(runs_of(lab, &job).await, 0);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, job.next_run);
    assert_eq!(lab.store.fire(&[fire]).await.unwrap(), [true]);
}

pub async fn only_an_enabled_job_fires<B: Bench>(lab: &Lab<B>) {
    for state in [JobState::Paused, JobState::Disabled, JobState::Completed, JobState::Deleted] {
        let (mut job, fire) = planned(lab, &format!("{state:?}")).await;
        job.state = state;
        lab.update(&mut job, Prepared::Keep).await;
        // Even a planner that knows the version is too late.
        let fires = [fire.clone(), RecordPlan { version: job.version, ..fire }];
        assert_eq!(lab.store.fire(&fires).await.unwrap(), [false, false], "{state:?}");
        assert_eq!(runs_of(lab, &job).await, 0);
    }
}

pub async fn a_stale_plan_does_not_stop_the_others<B: Bench>(lab: &Lab<B>) {
    let (first, fire_first) = planned(lab, "first").await;
    let (stale, fire_stale) = planned(lab, "stale").await;
    let (last, fire_last) = planned(lab, "last").await;
    let fire_stale = RecordPlan { version: 9, ..fire_stale };
    let fired = lab.store.fire(&[fire_first, fire_stale, fire_last]).await.unwrap();
    assert_eq!(fired, [true, false, true]);
    assert_eq!(
        [runs_of(lab, &first).await, runs_of(lab, &stale).await, runs_of(lab, &last).await],
        [3, 0, 3]
    );
}

pub async fn times_without_a_run_are_one_row<B: Bench>(lab: &Lab<B>) {
    let (job, fire) = planned(lab, "job").await;
    let first = fire.expected_next;
    let range = entry(&job, first - minutes(9), first - minutes(1), 9);
    let fire = RecordPlan { ledger: vec![range.clone()], ..fire };
    assert_eq!(lab.store.fire(std::slice::from_ref(&fire)).await.unwrap(), [true]);
    let view = lab.view(range.id).await;
    assert_eq!(view.state, RunState::Ended(Outcome::Missed));
    assert_eq!((view.scheduled_for, view.scheduled_last, view.count), (range.first, range.last, 9));
    assert_eq!(view.reason.as_deref(), Some("CATCH_UP"));
    assert_eq!(view.reason_text.as_deref(), Some("the machine was off"));
    assert_eq!((view.job, view.tenant, view.job_version), (job.id, job.tenant, job.version));
    assert_eq!((view.attempts, view.lost, view.node, view.fence), (0, 0, None, None));
    assert!(view.finished_at.is_some() && view.started_at.is_none() && !view.dead_letter);
    assert_eq!(runs_of(lab, &job).await, 4);
}

/// S2.113: a plan may hold ticks that are known already, and each keeps its one row.
pub async fn a_tick_has_one_row<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (job, fire) = planned(lab, "job").await;
    lab.store.fire(std::slice::from_ref(&fire)).await.unwrap();
    let claimed = lab.claim(node, want(1)).await.remove(0);
    lab.finish(node, completed(node, &claimed)).await;
    assert_eq!(lab.store.cancel(fire.runs[1].id, &stop(), SYSTEM).await.unwrap(), Cancelled::Ended);
    // Nor does a row without a run take the place of one that ended, or of one that is live.
    let ledger = fire.runs[1..].iter().map(|run| run.scheduled_for);
    let ledger = ledger.map(|at| entry(&job, at, at, 1)).collect();
    let expected_next = fire.new_next.unwrap();
    let again = RecordPlan { expected_next, new_next: None, ledger, ..fire.clone() };
    assert_eq!(lab.store.fire(&[again]).await.unwrap(), [true]);
    assert_eq!(lab.stored(&job).await.unwrap().next_run, None);
    assert_eq!(runs_of(lab, &job).await, 3);
    assert_eq!(lab.state(fire.runs[0].id).await, RunState::Ended(Outcome::Completed));
    assert_eq!(lab.state(fire.runs[1].id).await, RunState::Ended(Outcome::Cancelled));
    let claimed = lab.claim_one(node).await;
    assert_eq!(claimed.run.id, fire.runs[2].id);
    lab.finish(node, completed(node, &claimed)).await;
    assert_eq!(lab.state(fire.runs[2].id).await, RunState::Ended(Outcome::Completed));
}

/// Eight planners with the same plans: each plan counts once.
pub async fn racing_planners_make_one_set_of_runs<B: Bench>(lab: &Lab<B>) {
    let mut jobs = Vec::new();
    let mut fires = Vec::new();
    for n in 0..20 {
        let (job, fire) = planned(lab, &format!("job {n}")).await;
        jobs.push(job);
        fires.push(fire);
    }
    let handles = [lab.bench.handle().await, lab.bench.handle().await];
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let (store, mut fires) = (Arc::clone(&handles[n % 2]), fires.clone());
        fires.rotate_left(n);
        tasks.spawn(async move { store.fire(&fires).await.unwrap() });
    }
    let won = tasks.join_all().await.into_iter().flatten().filter(|won| *won).count();
    assert_eq!(won, 20);
    for job in &jobs {
        assert_eq!(runs_of(lab, job).await, 3);
    }
}
