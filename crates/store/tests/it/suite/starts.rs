//! Runs of a job by when they began, which is not the order of their ids.

use domain::id::{JobId, RunId};
use domain::job::Job;
use domain::run::{LedgerEntry, NewRun, Outcome, ReasonCode, RunState};
use store::{
    ClaimRequest, RecordPlan, RetentionCutoff, RunFilter, RunQueries, RunView, SYSTEM, StartFilter,
    StartKey, Store,
};

use crate::bench::Bench;
use crate::lab::{Lab, ended, minutes, reason, retried, seconds, stop, want};

/// All that a filter lets through after a place, in pages of a size.
async fn listed<B: Bench>(
    lab: &Lab<B>,
    filter: &StartFilter,
    mut after: Option<StartKey>,
    limit: u32,
) -> Vec<RunView> {
    let mut seen = Vec::new();
    loop {
        let page = lab.store.latest_starts(filter, after, limit).await.unwrap();
        assert!(page.items.len() <= limit as usize);
        seen.extend(page.items);
        let Some(next) = page.next else { return seen };
        assert_ne!(after, Some(next), "the list goes on");
        after = Some(next);
    }
}

fn ids(runs: &[RunView]) -> Vec<RunId> {
    runs.iter().map(|run| run.id).collect()
}

/// Ended runs of a job, in the promised order.
async fn expected<B: Bench>(lab: &Lab<B>, job: JobId) -> Vec<RunView> {
    let all = lab.store.list_runs(&RunFilter::of_job(job), None, 999).await.unwrap().items;
    let mut ended: Vec<_> =
        all.into_iter().filter(|run| matches!(run.state, RunState::Ended(_))).collect();
    // One that ended while it waited for another attempt stands where it ended.
    let began = |run: &RunView| match (run.started_at, run.attempts, run.state) {
        (Some(_), 1, RunState::Ended(Outcome::Cancelled)) => run.finished_at,
        (at, ..) => at,
    };
    ended.sort_by_key(|run| (began(run).is_none(), began(run), run.id));
    ended.reverse();
    ended
}

/// Runs of every kind: in time, late by less and by more than a minute, and without a start.
async fn varied<B: Bench>(lab: &Lab<B>, job: &Job) {
    let (node, now) = (lab.node().await, lab.now().await);
    let lags = [0, 59, 61, 3_600, 30, 1, 7_000, 60, 0, 2, 600, 45];
    let outcomes = [Outcome::Completed, Outcome::Failed, Outcome::Skipped, Outcome::Completed];
    let due = |n: usize| now - minutes(180) + seconds(20 * n as i64);
    let runs: Vec<NewRun> = (0..48).map(|n| lab.run(job, due(n))).collect();
    lab.submit(&runs).await;
    let held = lab.claim(node, want(99)).await;
    let done = held.iter().map(|held| {
        let n = runs.iter().position(|run| run.id == held.run.id).unwrap();
        let mut finish = ended(node, held, outcomes[n / 3 % outcomes.len()]);
        if let Some(attempt) = &mut finish.attempt {
            attempt.started_at = held.run.due_at + seconds(lags[n % lags.len()]);
            attempt.finished_at = attempt.started_at + seconds(1);
        }
        finish
    });
    let done: Vec<_> = done.collect();
    lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    // One had two attempts, and one was cancelled while it waited for its second.
    let twice = lab.started(node, job).await;
    lab.finish(node, retried(node, &twice, seconds(0))).await;
    let again = lab.claim_one(node).await;
    lab.finish(node, ended(node, &again, Outcome::Completed)).await;
    let waits = lab.started(node, job).await;
    lab.finish(node, retried(node, &waits, seconds(3_600))).await;
    lab.store.cancel(waits.run.id, &stop(), SYSTEM).await.unwrap();
    // One goes on.
    lab.started(node, job).await;
}

pub async fn starts_come_in_their_order_whatever_the_ids_say<B: Bench>(lab: &Lab<B>) {
    let (job, other) = (lab.job("varied").await, lab.job("other").await);
    varied(lab, &job).await;
    varied(lab, &other).await;
    let all = expected(lab, job.id).await;
    assert_eq!(all.len(), 50);
    let filter = StartFilter::of_job(job.id);
    for limit in [1, 2, 7, 49, 50, 51, 999] {
        assert_eq!(ids(&listed(lab, &filter, None, limit).await), ids(&all), "pages of {limit}");
    }
    let begun: Vec<_> = all.iter().filter(|run| run.started_at.is_some()).cloned().collect();
    assert!(begun.len() < all.len() && begun.len() > 30);
    let found = listed(lab, &filter, Some(StartKey::BEGUN), 5).await;
    assert_eq!(ids(&found), ids(&begun));
    let middle = begun[20].started_at.unwrap();
    let found = listed(lab, &filter, Some(StartKey::before(middle)), 5).await;
    let earlier: Vec<_> =
        begun.iter().filter(|run| run.started_at < Some(middle)).map(|run| run.id).collect();
    assert_eq!(ids(&found), earlier);
    for (outcomes, retried) in
        [(vec![Outcome::Failed], false), (vec![Outcome::Failed], true), (Vec::new(), true)]
    {
        let filter = StartFilter { job: job.id, outcomes: outcomes.clone(), retried };
        let of = |run: &&RunView| {
            let ended = |outcome: &Outcome| run.state == RunState::Ended(*outcome);
            outcomes.iter().any(ended) || retried && run.attempts + run.lost > 1
        };
        let wanted: Vec<_> = all.iter().filter(of).map(|run| run.id).collect();
        assert!(!wanted.is_empty() && wanted.len() < all.len());
        for limit in [1, 4, 999] {
            let found = ids(&listed(lab, &filter, None, limit).await);
            assert_eq!(found, wanted, "{filter:?} in pages of {limit}");
        }
    }
}

pub async fn a_run_that_is_gone_has_no_start<B: Bench>(lab: &Lab<B>) {
    let (mut job, now) = (lab.draft("job").await, lab.now().await);
    job.next_run = Some(now - minutes(300));
    lab.create(&job).await;
    varied(lab, &job).await;
    let entry = LedgerEntry {
        id: RunId::of_tick(job.id, now - minutes(300), ""),
        job: job.id,
        tenant: job.tenant,
        job_version: 1,
        first: now - minutes(300),
        last: now - minutes(290),
        count: 11,
        outcome: Outcome::Missed,
        reason: reason(ReasonCode::Overlap, "nobody was there"),
    };
    let fire = RecordPlan {
        job: job.id,
        version: 1,
        expected_next: now - minutes(300),
        new_next: None,
        runs: Vec::new(),
        ledger: vec![entry],
    };
    assert_eq!(lab.store.fire(&[fire]).await.unwrap(), [true]);
    let filter = StartFilter::of_job(job.id);
    assert_eq!(listed(lab, &filter, None, 999).await.len(), 51);
    let later = now + minutes(900);
    for job in [Some(job.id), None] {
        let cut = RetentionCutoff {
            job,
            before: later,
            failed_before: later,
            keep_last: Some(5),
            sample: None,
        };
        lab.store.prune(&cut, 25).await.unwrap();
    }
    let cut = RetentionCutoff {
        job: None,
        before: later,
        failed_before: later,
        keep_last: None,
        sample: None,
    };
    while lab.store.prune(&cut, 10).await.unwrap() > 0 {}
    assert_eq!(listed(lab, &filter, None, 999).await, []);
}

pub async fn runs_that_were_tried_again_are_listed<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let mut again = Vec::new();
    for n in 1..3 {
        let claimed = lab.started(node, &job).await;
        lab.finish(node, retried(node, &claimed, seconds(3_600 * n))).await;
        again.push(claimed.run.id);
    }
    let claimed = lab.started(node, &job).await;
    again.push(claimed.run.id);
    lab.finish(node, retried(node, &claimed, seconds(0))).await;
    let claimed = lab.claim_one(node).await;
    lab.finish(node, retried(node, &claimed, seconds(0))).await;
    let claimed = lab.claim_one(node).await;
    lab.finish(node, ended(node, &claimed, Outcome::Completed)).await;
    let plain = lab.started(node, &job).await;
    lab.finish(node, ended(node, &plain, Outcome::Completed)).await;
    again.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    for limit in [1, 2, 9] {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = lab.store.retried(before, limit).await.unwrap();
            found.extend(ids(&page.items));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found, again, "pages of {limit}");
    }
}
