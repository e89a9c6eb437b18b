//! Lists of runs: every filter, in pages of every size, while runs end.

use domain::id::{NodeId, RunId};
use domain::job::Job;
use domain::run::{LedgerEntry, NewRun, Origin, Outcome, ReasonCode, RunState};
use store::{ClaimRequest, RecordPlan, RunFilter, RunsOf, SYSTEM, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{Lab, completed, ended, ids_of, minutes, reason, seconds, stop, tenant, want};

/// All that a filter lets through, in pages of a size.
async fn listed<B: Bench>(lab: &Lab<B>, filter: &RunFilter, limit: u32) -> Vec<RunId> {
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = lab.store.list_runs(filter, before, limit).await.unwrap();
        assert!(page.items.len() <= limit as usize);
        seen.extend(page.items.iter().map(|run| run.id));
        let Some(next) = page.next else { return seen };
        assert!(before.is_none_or(|before| next < before), "the list goes on");
        before = Some(next);
    }
}

/// The same in pages of several sizes.
async fn list<B: Bench>(lab: &Lab<B>, filter: &RunFilter) -> Vec<RunId> {
    let all = listed(lab, filter, 999).await;
    for limit in [1, 2, 5] {
        assert_eq!(listed(lab, filter, limit).await, all, "in pages of {limit}");
    }
    all
}

fn newest_first(mut runs: Vec<RunId>) -> Vec<RunId> {
    runs.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    runs
}

/// Ends the runs like this, the others stay as they are.
async fn end<B: Bench>(lab: &Lab<B>, node: NodeId, ends: &[(&NewRun, Outcome)]) {
    let held = lab.claim(node, want(999)).await;
    let done: Vec<_> = held
        .iter()
        .map(|held| match ends.iter().find(|(run, _)| run.id == held.run.id) {
            Some((_, outcome)) => ended(node, held, *outcome),
            None => crate::lab::untried(held, Verdict::Release),
        })
        .collect();
    lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
}

/// A run dies and becomes a dead letter.
pub async fn dead<B: Bench>(lab: &Lab<B>, node: NodeId, job: &Job) -> RunId {
    let claimed = lab.started(node, job).await;
    let mut finish = ended(node, &claimed, Outcome::Failed);
    finish.verdict = Verdict::End { outcome: Outcome::Failed, reason: None, dead_letter: true };
    lab.finish(node, finish).await;
    claimed.run.id
}

/// A tenant's list mixes its jobs, live and ended runs and rows for times without a run.
pub async fn a_tenant_sees_all_its_runs_and_no_others<B: Bench>(lab: &Lab<B>) {
    let (node, now) = (lab.node().await, lab.now().await);
    let (first, mut second) = (lab.job("first").await, lab.draft("second").await);
    second.next_run = Some(now - minutes(50));
    lab.create(&second).await;
    let mut elsewhere = lab.draft("elsewhere").await;
    elsewhere.tenant = tenant(9);
    lab.create(&elsewhere).await;
    let runs: Vec<_> = (0..9).map(|n| lab.run(&first, now - minutes(60 - 2 * n))).collect();
    let others: Vec<_> = (0..5).map(|n| lab.run(&elsewhere, now - minutes(60 - 3 * n))).collect();
    lab.submit(&[runs.clone(), others.clone()].concat()).await;
    let entry = LedgerEntry {
        id: RunId::of_tick(second.id, now - minutes(50), ""),
        job: second.id,
        tenant: second.tenant,
        job_version: 1,
        first: now - minutes(50),
        last: now - minutes(49),
        count: 2,
        outcome: Outcome::Skipped,
        reason: reason(ReasonCode::CatchUp, "gone"),
    };
    let fire = RecordPlan {
        job: second.id,
        version: 1,
        expected_next: now - minutes(50),
        new_next: None,
        runs: vec![lab.tick(&second, now + minutes(1))],
        ledger: vec![entry.clone()],
    };
    lab.store.fire(std::slice::from_ref(&fire)).await.unwrap();
    let outcomes = Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Cancelled);
    let ends: Vec<_> = runs.iter().zip(outcomes).collect();
    end(lab, node, &ends).await;
    end(lab, node, &[(&others[0], Outcome::Completed)]).await;
    lab.store.cancel(runs[7].id, &stop(), SYSTEM).await.unwrap();
    let all = [ids_of(&runs), ids_of(&fire.runs), vec![entry.id]].concat();
    assert_eq!(list(lab, &RunFilter::of_tenant(first.tenant)).await, newest_first(all));
    assert_eq!(list(lab, &RunFilter::of_tenant(tenant(9))).await, newest_first(ids_of(&others)));
    assert_eq!(list(lab, &RunFilter::of_tenant(tenant(8))).await, []);
    for run in lab.store.list_runs(&RunFilter::of_tenant(tenant(9)), None, 9).await.unwrap().items {
        assert_eq!(run, lab.view(run.id).await);
    }
}

pub async fn runs_are_found_by_state<B: Bench>(lab: &Lab<B>) {
    let (node, job, now) = (lab.node().await, lab.job("job").await, lab.now().await);
    let runs: Vec<_> = (0..8).map(|n| lab.run(&job, now - minutes(60 - n))).collect();
    lab.submit(&runs).await;
    end(lab, node, &[(&runs[1], Outcome::Completed), (&runs[4], Outcome::Failed)]).await;
    end(lab, node, &[(&runs[2], Outcome::Completed), (&runs[6], Outcome::Timeout)]).await;
    let running = lab.claim(node, want(1)).await.remove(0).run.id;
    let pending = lab.run(&job, now + minutes(5));
    lab.submit(std::slice::from_ref(&pending)).await;
    let queued = [0, 3, 5, 7].map(|n: usize| runs[n].id).into_iter().filter(|run| *run != running);
    let queued = newest_first(queued.collect());
    let [done, failed, timeout, cancelled] =
        [Outcome::Completed, Outcome::Failed, Outcome::Timeout, Outcome::Cancelled]
            .map(RunState::Ended);
    let both = newest_first([queued.clone(), vec![runs[4].id]].concat());
    let expected = [
        (vec![RunState::Pending], vec![pending.id]),
        (vec![RunState::Running], vec![running]),
        (vec![RunState::Queued], queued),
        (vec![done], vec![runs[2].id, runs[1].id]),
        (vec![timeout, failed], vec![runs[6].id, runs[4].id]),
        (vec![failed, RunState::Queued], both),
        (vec![cancelled], vec![]),
    ];
    for (states, expected) in expected {
        for of in [RunsOf::Tenant(job.tenant), RunsOf::Job(job.id)] {
            let filter = RunFilter { states: states.clone(), ..RunFilter::new(of) };
            assert_eq!(list(lab, &filter).await, expected, "{filter:?}");
        }
    }
}

pub async fn runs_are_found_by_origin_and_time<B: Bench>(lab: &Lab<B>) {
    let (node, job, now) = (lab.node().await, lab.job("job").await, lab.now().await);
    let ticks: Vec<_> = (0..6).map(|n| lab.tick(&job, now - minutes(60 - 2 * n))).collect();
    let by_hand: Vec<_> = (0..6).map(|n| lab.run(&job, now - minutes(59 - 2 * n))).collect();
    lab.submit(&[ticks.clone(), by_hand.clone()].concat()).await;
    let done = [&ticks[0], &ticks[3], &by_hand[2], &by_hand[3]];
    end(lab, node, &done.map(|run| (run, Outcome::Completed))).await;
    for of in [RunsOf::Tenant(job.tenant), RunsOf::Job(job.id)] {
        let filter = RunFilter::new(of);
        let origin = RunFilter { origin: Some(Origin::Schedule), ..filter.clone() };
        assert_eq!(list(lab, &origin).await, newest_first(ids_of(&ticks)));
        let none = RunFilter { origin: Some(Origin::Backfill), ..filter.clone() };
        assert_eq!(list(lab, &none).await, []);
        let since = Some(now - minutes(57));
        let until = Some(now - minutes(54));
        let expected = newest_first(vec![by_hand[1].id, ticks[2].id, by_hand[2].id]);
        let between = RunFilter { since, until, ..filter.clone() };
        assert_eq!(list(lab, &between).await, expected);
        let ended = vec![RunState::Ended(Outcome::Completed)];
        let all = RunFilter { states: ended, origin: Some(Origin::Manual), ..between };
        assert_eq!(list(lab, &all).await, [by_hand[2].id]);
    }
}

/// A filter that lets few through costs no more than one that lets all through: the page is short
/// and the next one goes on.
pub async fn what_is_rare_is_found_in_short_pages<B: Bench>(lab: &Lab<B>) {
    let (node, job, now) = (lab.node().await, lab.job("job").await, lab.now().await);
    let rare = lab.tick(&job, now - minutes(600));
    let common: Vec<_> = (0..2_500).map(|n| lab.run(&job, now - seconds(9_000 - n))).collect();
    lab.submit(std::slice::from_ref(&rare)).await;
    lab.submit(&common).await;
    for _ in 0..3 {
        let held = lab.claim(node, want(1_000)).await;
        let done: Vec<_> = held.iter().map(|held| completed(node, held)).collect();
        lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    }
    for of in [RunsOf::Tenant(job.tenant), RunsOf::Job(job.id)] {
        let filter = RunFilter { origin: Some(Origin::Schedule), ..RunFilter::new(of) };
        let page = lab.store.list_runs(&filter, None, 10).await.unwrap();
        assert_eq!(page.items.len(), 0);
        let page = lab.store.list_runs(&filter, page.next, 10).await.unwrap();
        assert_eq!(page.items.len(), 1);
        assert_eq!((page.items[0].id, page.next), (rare.id, None));
    }
}

/// A run keeps its place when it ends between two pages.
pub async fn a_run_that_ends_between_pages_is_seen_once<B: Bench>(lab: &Lab<B>) {
    let (node, job, now) = (lab.node().await, lab.job("job").await, lab.now().await);
    let runs: Vec<_> = (0..12).map(|n| lab.run(&job, now - minutes(60 - n))).collect();
    lab.submit(&runs).await;
    for of in [RunsOf::Tenant(job.tenant), RunsOf::Job(job.id)] {
        let filter = RunFilter::new(of);
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page = lab.store.list_runs(&filter, before, 2).await.unwrap();
            seen.extend(page.items.iter().map(|run| run.id));
            if let Some(held) = lab.claim(node, want(1)).await.first() {
                lab.finish(node, completed(node, held)).await;
            }
            if page.next.is_none() {
                break;
            }
            before = page.next;
        }
        assert_eq!(seen, newest_first(ids_of(&runs)));
    }
}
