//! Following: ended runs and changed jobs in order, and the tallies that are made of them.

use domain::id::JobId;
use domain::job::JobState;
use domain::run::{Outcome, RunState};
use domain::tally::{Key, Measure};
use store::{
    ChangeFeed, ClaimRequest, Cursor, LastRun, Prepared, RecentEnd, RunFilter, RunQueries, Store,
    Verdict,
};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{Lab, ended, minutes, seconds, skipped, tenant, want};

pub async fn ended_runs_come_in_the_order_of_their_ends<B: Bench>(lab: &Lab<B>) {
    let (node, job, now) = (lab.node().await, lab.job("job").await, lab.now().await);
    let runs: Vec<_> = (0..7).map(|n| lab.run(&job, now - minutes(60 - n))).collect();
    lab.submit(&runs).await;
    // The older a run, the later it ends; two end at the same time.
    let ends: Vec<_> = (0..7).map(|n| now - minutes(20 + [n, 1][usize::from(n == 2)])).collect();
    let held = lab.claim(node, want(99)).await;
    let mut expected = Vec::new();
    let mut done = Vec::new();
    for held in &held {
        let place = runs.iter().position(|run| run.id == held.run.id).unwrap();
        let outcome = if place == 3 { Outcome::Failed } else { Outcome::Completed };
        let mut finish = ended(node, held, outcome);
        finish.attempt.as_mut().unwrap().finished_at = ends[place];
        if place == 3 {
            finish.verdict = Verdict::End { outcome, reason: None, dead_letter: true };
        }
        done.push(finish);
        expected.push((ends[place], held.run.id));
    }
    lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    expected.sort();
    let mut seen = Vec::new();
    let mut cursor = Cursor::from(now - minutes(99));
    loop {
        let page = lab.store.ended(cursor, now, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        cursor = Cursor::after(last);
        seen.extend(page);
    }
    let order: Vec<_> = seen.iter().map(|run| (run.finished_at, run.id)).collect();
    assert_eq!(order, expected);
    let dead = seen.iter().find(|run| run.id == runs[3].id).unwrap();
    assert_eq!((dead.outcome, dead.dead_letter), (Outcome::Failed, true));
    assert_eq!((dead.job, dead.tenant, dead.count), (job.id, job.tenant, 1));
    assert_eq!((dead.scheduled_for, dead.attempts), (runs[3].scheduled_for, 1));
    assert_eq!(dead.started_at, Some(runs[3].due_at - seconds(1)));
    let early = lab.store.ended(Cursor::from(ends[6]), ends[4], 99).await.unwrap();
    assert_eq!(early.len(), 2, "until then, without it");
}

pub async fn changed_jobs_come_in_the_order_of_their_changes<B: Bench>(lab: &Lab<B>) {
    let now = lab.now().await;
    let mut jobs = Vec::new();
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        let mut job = lab.draft(name).await;
        job.updated_at = now - minutes(30 - n as i64);
        lab.create(&job).await;
        jobs.push(job);
    }
    jobs[0].state = JobState::Deleted;
    jobs[0].updated_at = now - minutes(5);
    lab.update(&mut jobs[0], Prepared::Drop).await;
    let mut cursor = Cursor::from(now - minutes(40));
    let mut seen = Vec::new();
    while let Some(job) = lab.store.changed_jobs(cursor, 1).await.unwrap().pop() {
        cursor = Cursor::after_change(&job);
        seen.push((job.name, job.state));
    }
    let live = JobState::Enabled;
    let expected = [("b", live), ("c", live), ("a", JobState::Deleted)];
    assert_eq!(seen, expected.map(|(name, state)| (name.to_owned(), state)));
}

fn key(tenant_number: u128, job: u128, hour: i64, class: u8) -> Key {
    let (tenant, job) = (tenant(tenant_number), JobId(Uuid::from_u128(job)));
    Key { tenant, job, hour, measure: Measure::Ended, class }
}

pub async fn tallies_are_added_once<B: Bench>(lab: &Lab<B>) {
    let start = lab.store.tally_cursor().await.unwrap();
    let to = |n: i64| Cursor { at: start.at + minutes(n), id: Uuid::from_u128(7) };
    let first = [(key(1, 0, 10, 1), 5), (key(1, 8, 10, 1), 5), (key(2, 0, 10, 1), 1)];
    assert!(lab.store.add_tallies(start, to(1), &first).await.unwrap());
    assert!(!lab.store.add_tallies(start, to(1), &first).await.unwrap(), "somebody was faster");
    assert_eq!(lab.store.tally_cursor().await.unwrap(), to(1));
    let second = [(key(1, 0, 10, 1), 2), (key(1, 0, 11, 2), u64::from(u32::MAX))];
    assert!(lab.store.add_tallies(to(1), to(2), &second).await.unwrap());
    assert!(lab.store.add_tallies(to(2), to(3), &[]).await.unwrap());
    let found = async |of: u128, jobs: &[u128], since| {
        let jobs: Vec<_> = jobs.iter().map(|job| JobId(Uuid::from_u128(*job))).collect();
        let mut found = lab.store.tallies(tenant(of), &jobs, since).await.unwrap();
        found.sort();
        found
    };
    let all = [(key(1, 0, 10, 1), 7), (key(1, 0, 11, 2), u64::from(u32::MAX))];
    assert_eq!(found(1, &[0], 10).await, all);
    assert_eq!(found(1, &[0], 11).await, all[1..]);
    assert_eq!(found(1, &[8, 9], 0).await, [(key(1, 8, 10, 1), 5)]);
    assert_eq!(found(2, &[0, 8], 0).await, [(key(2, 0, 10, 1), 1)]);
    assert_eq!(found(3, &[0], 0).await, []);
    assert_eq!(lab.store.forget_tallies(11, 2).await.unwrap(), 2);
    assert_eq!(lab.store.forget_tallies(11, 9).await.unwrap(), 1);
    assert_eq!(found(1, &[0, 8], 0).await, all[1..]);
}

pub async fn racing_tallies_are_added_once<B: Bench>(lab: &Lab<B>) {
    let handle = lab.bench.handle().await;
    let start = lab.store.tally_cursor().await.unwrap();
    let to = Cursor { at: start.at + minutes(1), id: Uuid::from_u128(7) };
    let amounts = [(key(1, 0, 10, 1), 5)];
    let (first, second) = tokio::join!(
        lab.store.add_tallies(start, to, &amounts),
        handle.add_tallies(start, to, &amounts)
    );
    assert_ne!(first.unwrap(), second.unwrap());
    let found = lab.store.tallies(tenant(1), &[JobId::NONE], 0).await.unwrap();
    assert_eq!(found, amounts);
}

pub async fn the_last_runs_of_jobs_are_told<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (busy, idle, skipping) =
        (lab.job("busy").await, lab.job("idle").await, lab.job("skipping").await);
    for outcome in [Outcome::Completed, Outcome::Failed] {
        let run = lab.started(node, &busy).await;
        lab.finish(node, ended(node, &run, outcome)).await;
    }
    let last = lab.store.list_runs(&RunFilter::of_job(busy.id), None, 1).await.unwrap().items;
    // Skipped runs and live runs are not the last run of their job.
    let run = lab.started(node, &busy).await;
    lab.finish(node, skipped(&run, Outcome::Skipped)).await;
    lab.started(node, &busy).await;
    let run = lab.started(node, &skipping).await;
    lab.finish(node, skipped(&run, Outcome::Missed)).await;
    let found = lab.store.last_runs(&[idle.id, busy.id, skipping.id]).await.unwrap();
    let scheduled_for = last[0].scheduled_for;
    assert_eq!(found, [LastRun { job: busy.id, scheduled_for, outcome: Outcome::Failed }]);
    assert_eq!(lab.store.last_runs(&[]).await.unwrap(), []);
}

pub async fn the_recent_ends_of_jobs_are_told<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (busy, idle) = (lab.job("busy").await, lab.job("idle").await);
    for outcome in [Outcome::Completed, Outcome::Failed, Outcome::Timeout] {
        let run = lab.started(node, &busy).await;
        lab.finish(node, ended(node, &run, outcome)).await;
    }
    let run = lab.started(node, &busy).await;
    lab.finish(node, skipped(&run, Outcome::Skipped)).await;
    // A live run has not ended.
    lab.started(node, &busy).await;
    let listed = RunFilter { states: states(), ..RunFilter::of_job(busy.id) };
    let listed = lab.store.list_runs(&listed, None, 9).await.unwrap().items;
    let found = lab.store.recent_ends(&[idle.id, busy.id], 9).await.unwrap();
    let expected: Vec<RecentEnd> = listed
        .iter()
        .map(|run| RecentEnd {
            job: busy.id,
            run: run.id,
            scheduled_for: run.scheduled_for,
            outcome: match run.state {
                RunState::Ended(outcome) => outcome,
                state => panic!("{state}"),
            },
            job_version: run.job_version,
        })
        .collect();
    assert_eq!(found, expected);
    let outcomes: Vec<Outcome> = found.iter().map(|end| end.outcome).collect();
    use Outcome::{Completed, Failed, Skipped, Timeout};
    assert_eq!(outcomes, [Skipped, Timeout, Failed, Completed]);
    assert_eq!(lab.store.recent_ends(&[busy.id], 2).await.unwrap(), expected[..2]);
    assert_eq!(lab.store.recent_ends(&[], 2).await.unwrap(), []);
}

/// Every state of a run that has ended.
fn states() -> Vec<RunState> {
    Outcome::ALL.into_iter().map(RunState::Ended).collect()
}
