//! Pruning: history is deleted by age and by number, in small portions, and nothing else is.

use domain::id::{NodeId, RunId};
use domain::job::{Job, JobState, Retention};
use domain::queue::KeepCompleted;
use domain::run::{LedgerEntry, NewRun, Outcome, ReasonCode};
use jiff::Timestamp;
use store::{ClaimRequest, Prepared, RecordPlan, RetentionCutoff, RunFilter, SampleCutoff, Store};

use crate::bench::Bench;
use crate::lab::{Lab, ended, minutes, reason, retried, seconds, want};

/// Records runs of a job that ended at these minutes before now.
async fn history<B: Bench>(
    lab: &Lab<B>,
    node: NodeId,
    job: &Job,
    ends: &[(i64, Outcome)],
) -> Vec<RunId> {
    let now = lab.now().await;
    // The ends of the ids are spread, as those of random ids are.
    let run = |(ago, _): &(i64, Outcome)| {
        let run = lab.run(job, now - minutes(*ago + 1));
        let spread = run.id.0.as_u128().wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        NewRun { id: RunId::of_request(run.due_at, spread), ..run }
    };
    let runs: Vec<_> = ends.iter().map(run).collect();
    lab.submit(&runs).await;
    let mut held = lab.claim(node, want(999)).await;
    assert_eq!(held.len(), runs.len());
    held.sort_by_key(|held| runs.iter().position(|run| run.id == held.run.id));
    let done = held.iter().zip(ends).map(|(held, (ago, outcome))| {
        let mut finish = ended(node, held, *outcome);
        let made = finish.attempt.as_mut().unwrap();
        (made.started_at, made.finished_at) = (now - minutes(*ago + 1), now - minutes(*ago));
        finish
    });
    lab.store
        .complete_and_claim(node, &done.collect::<Vec<_>>(), ClaimRequest::default())
        .await
        .unwrap();
    runs.into_iter().map(|run| run.id).collect()
}

async fn kept<B: Bench>(lab: &Lab<B>, runs: &[RunId]) -> Vec<usize> {
    let mut kept = Vec::new();
    for (n, run) in runs.iter().enumerate() {
        if lab.store.run(*run).await.unwrap().is_some() {
            kept.push(n);
        }
    }
    kept
}

fn cut(before: Timestamp) -> RetentionCutoff {
    RetentionCutoff { job: None, before, failed_before: before, keep_last: None, sample: None }
}

use Outcome::{Cancelled, Completed, Failed, Timeout};

pub async fn what_ended_long_ago_goes<B: Bench>(lab: &Lab<B>) {
    let (node, now) = (lab.node().await, lab.now().await);
    let (job, other) = (lab.job("job").await, lab.job("other").await);
    let ends = [(90, Completed), (60, Cancelled), (30, Completed), (10, Failed)];
    let runs = history(lab, node, &job, &ends).await;
    let others = history(lab, node, &other, &[(70, Completed)]).await;
    assert_eq!(lab.store.prune(&cut(now - minutes(45)), 99).await.unwrap(), 3);
    assert_eq!(kept(lab, &runs).await, [2, 3]);
    assert_eq!(kept(lab, &others).await, [] as [usize; 0]);
    assert_eq!(lab.store.prune(&cut(now - minutes(45)), 99).await.unwrap(), 0);
}

pub async fn failures_are_kept_longer<B: Bench>(lab: &Lab<B>) {
    let (node, now, job) = (lab.node().await, lab.now().await, lab.job("job").await);
    let ends = [(90, Failed), (90, Timeout), (60, Failed), (60, Timeout), (60, Completed)];
    let runs = history(lab, node, &job, &ends).await;
    let old = RetentionCutoff { failed_before: now - minutes(75), ..cut(now - minutes(45)) };
    assert_eq!(lab.store.prune(&old, 99).await.unwrap(), 3);
    assert_eq!(kept(lab, &runs).await, [2, 3]);
    // The same for one job, and the other way round.
    let old = RetentionCutoff {
        job: Some(job.id),
        before: now - minutes(99),
        failed_before: now,
        keep_last: None,
        sample: None,
    };
    assert_eq!(lab.store.prune(&old, 99).await.unwrap(), 2);
}

/// A job with a retention of its own is not pruned with the others.
pub async fn a_job_with_its_own_rule_is_left_alone<B: Bench>(lab: &Lab<B>) {
    let (node, now) = (lab.node().await, lab.now().await);
    let rules = [
        Retention { days: Some(400), ..Retention::default() },
        Retention { failed_days: Some(400), ..Retention::default() },
        Retention { keep_last: Some(10), ..Retention::default() },
        Retention::default(),
    ];
    let mut runs = Vec::new();
    let mut jobs = Vec::new();
    for (n, retention) in rules.into_iter().enumerate() {
        let mut job = lab.draft(&format!("job {n}")).await;
        job.definition.retention = retention;
        lab.create(&job).await;
        runs.extend(history(lab, node, &job, &[(90, Completed)]).await);
        jobs.push(job);
    }
    assert_eq!(lab.store.prune(&cut(now - minutes(45)), 99).await.unwrap(), 1);
    assert_eq!(kept(lab, &runs).await, [0, 1, 2]);
    let own = RetentionCutoff { job: Some(jobs[1].id), ..cut(now - minutes(45)) };
    assert_eq!(lab.store.prune(&own, 99).await.unwrap(), 1);
    assert_eq!(kept(lab, &runs).await, [0, 2]);
}

pub async fn rules_of_jobs_are_listed_by_id<B: Bench>(lab: &Lab<B>) {
    let mut expected = Vec::new();
    for n in 0..5 {
        let mut job = lab.draft(&format!("job {n}")).await;
        let rule = Retention { days: Some(n), keep_last: Some(1), ..Retention::default() };
        job.definition.retention = if n == 2 { Retention::default() } else { rule };
        lab.create(&job).await;
        match n {
            2 => {}
            // It gives its rule up.
            3 => {
                job.definition.retention = Retention::default();
                lab.update(&mut job, Prepared::Keep).await;
            }
            _ => expected.push((job.id, rule)),
        }
    }
    // A deleted job keeps its rule for the rest of its history.
    let mut gone = lab.draft("gone").await;
    gone.definition.retention.days = Some(9);
    lab.create(&gone).await;
    gone.state = JobState::Deleted;
    lab.update(&mut gone, Prepared::Drop).await;
    expected.push((gone.id, gone.definition.retention));
    expected.sort_by_key(|(job, _)| *job);
    let first = lab.store.retention_rules(None, 2).await.unwrap();
    assert_eq!(first, expected[..2]);
    let rest = lab.store.retention_rules(Some(first[1].0), 9).await.unwrap();
    assert_eq!(rest, expected[2..]);
    assert_eq!(lab.store.retention_rules(Some(rest[1].0), 9).await.unwrap(), []);
}

/// The history of a deleted job follows its rule, live runs included, and the rule is not read any
/// more when nothing is left.
pub async fn a_deleted_job_has_a_rule_until_nothing_is_left<B: Bench>(lab: &Lab<B>) {
    let (node, now) = (lab.node().await, lab.now().await);
    let (mut job, other) = (lab.job("job").await, lab.job("other").await);
    let runs = history(lab, node, &job, &[(90, Completed), (60, Failed), (30, Completed)]).await;
    let others = history(lab, node, &other, &[(90, Completed)]).await;
    let goes_on = lab.started(node, &job).await;
    job.state = JobState::Deleted;
    job.definition.retention = Retention::NOTHING;
    lab.update(&mut job, Prepared::Drop).await;
    let rules = async || lab.store.retention_rules(None, 9).await.unwrap();
    let later = now + minutes(900);
    let all = RetentionCutoff { job: Some(job.id), keep_last: Some(0), ..cut(later) };
    // The common rule leaves it alone.
    assert_eq!(lab.store.prune(&cut(now - minutes(80)), 9).await.unwrap(), 1);
    assert_eq!((kept(lab, &runs).await.len(), kept(lab, &others).await.len()), (3, 0));
    for gone in [2, 1, 0] {
        assert_eq!(lab.store.prune(&all, 2).await.unwrap(), gone);
        assert_eq!(rules().await, [(job.id, Retention::NOTHING)], "a run goes on");
    }
    lab.finish(node, ended(node, &goes_on, Completed)).await;
    for (gone, rest) in [(1, 1), (0, 0)] {
        assert_eq!(lab.store.prune(&all, 2).await.unwrap(), gone);
        assert_eq!(rules().await.len(), rest);
    }
    assert!(kept(lab, &runs).await.is_empty());
}

pub async fn the_newest_so_many_are_kept<B: Bench>(lab: &Lab<B>) {
    let (node, now) = (lab.node().await, lab.now().await);
    let (job, other) = (lab.job("job").await, lab.job("other").await);
    let ends = [50, 10, 40, 20, 30].map(|ago| (ago, Completed));
    let runs = history(lab, node, &job, &ends).await;
    let others = history(lab, node, &other, &ends).await;
    let rule = RetentionCutoff { job: Some(job.id), keep_last: Some(2), ..cut(now - minutes(99)) };
    assert_eq!(lab.store.prune(&rule, 99).await.unwrap(), 3);
    assert_eq!(kept(lab, &runs).await, [1, 3]);
    assert_eq!(kept(lab, &others).await.len(), 5);
    let none = RetentionCutoff { keep_last: Some(0), ..rule };
    assert_eq!(lab.store.prune(&none, 99).await.unwrap(), 2);
}

/// Every node keeps the same completed runs, chosen by their ids, and the newest.
pub async fn a_sample_of_completed_runs_is_kept<B: Bench>(lab: &Lab<B>) {
    let (node, now, job) = (lab.node().await, lab.now().await, lab.job("job").await);
    let ends: Vec<_> = (0..40).map(|n| (90 - n, if n == 7 { Failed } else { Completed })).collect();
    let runs = history(lab, node, &job, &ends).await;
    let others = history(lab, node, &lab.job("other").await, &ends).await;
    let half = KeepCompleted::Sample(2).kept_below().unwrap();
    let sample =
        SampleCutoff { kept_below: half, before: now - minutes(60), since: now - minutes(85) };
    let rule =
        RetentionCutoff { job: Some(job.id), sample: Some(sample), ..cut(now - minutes(500)) };
    // Runs that ended in the minutes between are looked at; those before and after stay.
    let goes = |n: usize| {
        let ago = 90 - n as i64;
        let tail = &runs[n].0.as_bytes()[12..];
        ends[n].1 == Completed && (61..84).contains(&ago) && *tail >= half[..]
    };
    let surplus: Vec<usize> = (0..40).filter(|n| goes(*n)).collect();
    let stays: Vec<usize> = (0..40).filter(|n| !goes(*n) || surplus.last() == Some(n)).collect();
    assert!(surplus.len() > 2 && surplus.len() < 23, "{surplus:?}");
    assert_eq!(lab.store.prune(&rule, 2).await.unwrap(), 2, "no more at once than asked for");
    while lab.store.prune(&rule, 99).await.unwrap() > 0 {}
    assert_eq!(kept(lab, &runs).await, stays);
    assert_eq!(kept(lab, &others).await.len(), 40);
    // None but the newest.
    let sample = SampleCutoff { kept_below: [0; 4], before: now, since: now - minutes(500) };
    lab.store.prune(&RetentionCutoff { sample: Some(sample), ..rule }, 99).await.unwrap();
    assert_eq!(kept(lab, &runs).await, [7, 39]);
}

pub async fn no_more_goes_at_once_than_asked_for<B: Bench>(lab: &Lab<B>) {
    let (node, now, job) = (lab.node().await, lab.now().await, lab.job("job").await);
    let ends: Vec<_> = (0..12).map(|n| (90 - n, Completed)).collect();
    let runs = history(lab, node, &job, &ends).await;
    assert_eq!(lab.store.prune(&cut(now), 5).await.unwrap(), 5);
    assert_eq!(kept(lab, &runs).await.len(), 7);
    let both = RetentionCutoff { job: Some(job.id), keep_last: Some(1), ..cut(now - minutes(82)) };
    assert_eq!(lab.store.prune(&both, 4).await.unwrap(), 4);
    assert_eq!(lab.store.prune(&both, 99).await.unwrap(), 2);
    assert_eq!(kept(lab, &runs).await, [11]);
    assert_eq!(lab.store.prune(&cut(now), 0).await.unwrap(), 0);
}

pub async fn attempts_go_with_their_run<B: Bench>(lab: &Lab<B>) {
    let (node, now, job) = (lab.node().await, lab.now().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    lab.finish(node, retried(node, &claimed, seconds(0))).await;
    let again = lab.claim_one(node).await;
    lab.finish(node, ended(node, &again, Failed)).await;
    let run = claimed.run.id;
    assert_eq!(lab.store.attempts(run).await.unwrap().len(), 2);
    let live = lab.started(node, &job).await;
    lab.finish(node, retried(node, &live, minutes(9))).await;
    assert_eq!(lab.store.prune(&cut(now + minutes(9)), 99).await.unwrap(), 1);
    assert_eq!(lab.store.attempts(run).await.unwrap(), []);
    assert_eq!(lab.store.run(run).await.unwrap(), None);
    assert_eq!(lab.store.attempts(live.run.id).await.unwrap().len(), 1, "it has not ended");
}

/// Live runs stay, and rows for times without a run go like the others.
pub async fn only_history_is_pruned<B: Bench>(lab: &Lab<B>) {
    let (node, now) = (lab.node().await, lab.now().await);
    let mut job = lab.draft("job").await;
    job.next_run = Some(now - minutes(50));
    lab.create(&job).await;
    let entry = LedgerEntry {
        id: RunId::of_tick(job.id, now - minutes(50), ""),
        job: job.id,
        tenant: job.tenant,
        job_version: 1,
        first: now - minutes(50),
        last: now - minutes(40),
        count: 11,
        outcome: Outcome::Skipped,
        reason: reason(ReasonCode::CatchUp, "gone"),
    };
    let fire = RecordPlan {
        job: job.id,
        version: 1,
        expected_next: now - minutes(50),
        new_next: None,
        runs: vec![lab.tick(&job, now - minutes(39)), lab.tick(&job, now - minutes(38))],
        ledger: vec![entry.clone()],
    };
    lab.store.fire(&[fire]).await.unwrap();
    assert_eq!(lab.claim(node, want(1)).await.len(), 1);
    let all = RetentionCutoff { job: Some(job.id), keep_last: Some(0), ..cut(now + minutes(9)) };
    assert_eq!(lab.store.prune(&all, 99).await.unwrap(), 1);
    assert_eq!(lab.store.run(entry.id).await.unwrap(), None);
    assert_eq!(
        lab.store.list_runs(&RunFilter::of_job(job.id), None, 9).await.unwrap().items.len(),
        2
    );
}
