//! History of any time: ended runs are there, in order and once, however far their time is from
//! now.

use domain::id::{NodeId, RunId, TenantId};
use domain::job::Job;
use domain::run::{NewRun, Outcome, RunState};
use jiff::Timestamp;
use store::{
    Applied, ClaimFor, ClaimRequest, RetentionCutoff, RunFilter, RunQueries, StartFilter, Store,
};

use crate::bench::Bench;
use crate::lab::{Lab, ended, ids_of, minutes, processes, retried, seconds, want};

/// Times from the beginning of ids to far ahead, and around now.
async fn times<B: Bench>(lab: &Lab<B>) -> Vec<Timestamp> {
    let now = lab.now().await;
    let far = ["1970-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "2025-02-28T12:00:00Z"];
    let ahead = ["2031-07-01T00:00:00Z", "2199-01-01T00:00:00Z"];
    let mut times: Vec<Timestamp> =
        far.iter().chain(&ahead).map(|time| time.parse().unwrap()).collect();
    times.extend([40, 9, 2, 1, 0].map(|days: i64| now - minutes(days * 24 * 60 + 1)));
    times.sort_unstable();
    times
}

/// Runs of these times that are due now.
async fn due<B: Bench>(lab: &Lab<B>, job: &Job, times: &[Timestamp]) -> Vec<NewRun> {
    let due_at = lab.ago(60).await;
    let runs = times.iter().map(|time| NewRun { due_at, ..lab.run(job, *time) });
    let runs: Vec<NewRun> = runs.collect();
    lab.submit(&runs).await;
    runs
}

/// Ends all that are due: every third one fails.
async fn end<B: Bench>(lab: &Lab<B>, node: NodeId, runs: &[NewRun]) {
    let held = lab.claim(node, want(99)).await;
    assert_eq!(held.len(), runs.len());
    let done: Vec<_> = held
        .iter()
        .map(|held| {
            let at = runs.iter().position(|run| run.id == held.run.id).unwrap();
            let outcome = if at % 3 == 0 { Outcome::Failed } else { Outcome::Completed };
            ended(node, held, outcome)
        })
        .collect();
    let applied =
        lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap().applied;
    assert!(applied.iter().all(|applied| matches!(applied, Applied::Ended(_))), "{applied:?}");
}

async fn listed<B: Bench>(lab: &Lab<B>, filter: &RunFilter, limit: u32) -> Vec<RunId> {
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = lab.store.list_runs(filter, before, limit).await.unwrap();
        seen.extend(page.items.iter().map(|run| run.id));
        match page.next {
            Some(next) => before = Some(next),
            None => return seen,
        }
    }
}

pub async fn runs_of_any_time_end_and_are_listed_in_order<B: Bench>(lab: &Lab<B>) {
    let (node, job, times) = (lab.node().await, lab.job("job").await, times(lab).await);
    let runs = due(lab, &job, &times).await;
    end(lab, node, &runs).await;
    let newest_first: Vec<RunId> = ids_of(&runs).into_iter().rev().collect();
    let failed: Vec<RunId> = runs.iter().step_by(3).map(|run| run.id).rev().collect();
    let states = vec![RunState::Ended(Outcome::Failed)];
    let of_tenant = RunFilter::of_tenant(TenantId::DEFAULT);
    for (filter, expected) in [
        (RunFilter::of_job(job.id), &newest_first),
        (of_tenant.clone(), &newest_first),
        (RunFilter { states, ..of_tenant }, &failed),
    ] {
        for limit in [1, 4, 99] {
            assert_eq!(listed(lab, &filter, limit).await, *expected, "in pages of {limit}");
        }
    }
    for run in &runs {
        assert_eq!(lab.view(run.id).await.scheduled_for, run.scheduled_for);
        assert_eq!(lab.store.attempts(run.id).await.unwrap().len(), 1);
    }
    let filter = StartFilter::of_job(job.id);
    let (mut started, mut after) = (Vec::new(), None);
    loop {
        let page = lab.store.latest_starts(&filter, after, 3).await.unwrap();
        started.extend(page.items.iter().map(|run| run.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    started.sort_unstable();
    assert_eq!(started, ids_of(&runs));
}

pub async fn a_run_of_any_time_is_recorded_once<B: Bench>(lab: &Lab<B>) {
    let (node, job, times) = (lab.node().await, lab.job("job").await, times(lab).await);
    let runs = due(lab, &job, &times).await;
    end(lab, node, &runs).await;
    let again = lab.store.submit(&runs, None).await.unwrap();
    assert_eq!(again.accepted, vec![false; runs.len()]);
    for run in &runs {
        let claim = Some(ClaimFor { node, max: processes(9) });
        let one = lab.store.submit(std::slice::from_ref(run), claim).await.unwrap();
        assert_eq!((one.accepted, one.claimed.len()), (vec![false], 0), "{}", run.id);
    }
    assert_eq!(lab.claim(node, want(9)).await, []);
}

/// A run that has just ended stays, however old its nominal time is; one that ended long ago is
/// deleted with all its rows.
pub async fn retention_goes_by_the_end_and_not_by_the_time<B: Bench>(lab: &Lab<B>) {
    let (node, job, times) = (lab.node().await, lab.job("job").await, times(lab).await);
    let retried_run = due(lab, &job, &times[1..2]).await.remove(0);
    let held = lab.claim_one(node).await;
    lab.finish(node, retried(node, &held, seconds(0))).await;
    let again = lab.claim_one(node).await;
    lab.finish(node, ended(node, &again, Outcome::Completed)).await;
    let runs = due(lab, &job, &times).await;
    end(lab, node, &runs).await;
    let now = lab.now().await;
    let before = |at| RetentionCutoff {
        job: None,
        before: at,
        failed_before: at,
        keep_last: None,
        sample: None,
    };
    assert_eq!(lab.store.prune(&before(now - minutes(30)), 99).await.unwrap(), 0);
    assert_eq!(listed(lab, &RunFilter::of_job(job.id), 99).await.len(), runs.len() + 1);
    // Nothing ends before its time, so what lies ahead stays.
    let past = times.iter().filter(|time| **time < now).count();
    // A store that drops whole partitions knows only about how many rows went with them.
    while lab.store.prune(&before(now + minutes(1)), 99).await.unwrap() > 0 {}
    assert_eq!(listed(lab, &RunFilter::of_job(job.id), 99).await.len(), runs.len() - past);
    assert_eq!(lab.store.attempts(retried_run.id).await.unwrap(), []);
}
