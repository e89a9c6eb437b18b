//! Claims: the node that gets a run, when, and under which fence.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::run::{ClaimedRun, NewRun, Outcome, RunState};
use store::{Applied, ClaimFor, ClaimRequest, Prepared, RunFilter, Store, Verdict};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ids, ids_of, minutes, processes, seconds, tenant, untried, want, want_soon,
};

/// A claim has everything that was asked for.
pub async fn a_claim_brings_the_whole_run<B: Bench>(lab: &Lab<B>) {
    let (node, mut job) = (lab.node().await, lab.job("job").await);
    for _ in 0..3 {
        lab.update(&mut job, Prepared::Keep).await;
    }
    let due_at = lab.ago(60).await;
    let run = NewRun {
        tenant: tenant(77),
        shard: "shard_001".into(),
        priority: 9,
        coalesced: 3,
        ignore_dependencies: true,
        parameters: Some(r#"{"to": "Zoë"}"#.into()),
        scheduled_for: due_at - seconds(5),
        job_version: 4,
        ..lab.tick(&job, due_at)
    };
    lab.submit(std::slice::from_ref(&run)).await;
    let claimed = lab.claim_one(node).await;
    assert_eq!(claimed.run, run);
    assert_eq!((claimed.attempts, claimed.lost, claimed.grant.turn), (0, 0, 0));
    assert_eq!(claimed.grant.run, run.id);
}

pub async fn only_what_is_due_is_claimed<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let due = lab.run(&job, now - seconds(1));
    let later = lab.run(&job, now + minutes(30));
    lab.submit(&[later.clone(), due.clone()]).await;
    assert_eq!(ids(&lab.claim(node, want(10)).await), [due.id]);
    assert_eq!(lab.claim(node, want(10)).await, []);
    assert_eq!(lab.state(later.id).await, RunState::Pending);
}

pub async fn room_for_none_takes_none<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    lab.due(&job).await;
    assert_eq!(lab.claim(node, ClaimRequest::default()).await, []);
    assert_eq!(lab.claim(node, ClaimRequest { due: processes(0), ..want_soon(5) }).await, []);
}

pub async fn no_more_is_claimed_than_wanted<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..5).map(|n| lab.run(&job, due_at + seconds(n))).collect();
    lab.submit(&runs).await;
    assert_eq!(ids(&lab.claim(node, want(2)).await), ids_of(&runs[..2]));
    assert_eq!(ids(&lab.claim(node, want(2)).await), ids_of(&runs[2..4]));
    assert_eq!(ids(&lab.claim(node, want(2)).await), ids_of(&runs[4..]));
}

/// A claim of prepared runs takes those that become due inside the look-ahead, earliest first.
pub async fn soon_is_what_becomes_due_within_the_look_ahead<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let due = lab.run(&job, now - seconds(1));
    let far = lab.run(&job, now + minutes(61));
    let near: Vec<_> = [20, 30, 40].map(|n| lab.run(&job, now + minutes(n))).into();
    lab.submit(&[far.clone(), near[2].clone(), due.clone(), near[0].clone(), near[1].clone()])
        .await;
    assert_eq!(ids(&lab.claim(node, want_soon(2)).await), ids_of(&near[..2]));
    assert_eq!(ids(&lab.claim(node, want_soon(9)).await), [near[2].id]);
    assert_eq!(lab.claim(node, want_soon(9)).await, []);
    assert_eq!(lab.state(near[0].id).await, RunState::Pending);
    assert_eq!(lab.state(due.id).await, RunState::Queued);
}

pub async fn due_runs_come_before_prepared_ones<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let soon = NewRun { priority: 9, ..lab.run(&job, now + minutes(10)) };
    let due = NewRun { priority: 0, ..lab.run(&job, now - seconds(1)) };
    lab.submit(&[soon.clone(), due.clone()]).await;
    let claimed = lab.claim(node, ClaimRequest { due: processes(5), ..want_soon(5) }).await;
    assert_eq!(ids(&claimed), [due.id, soon.id]);
}

pub async fn an_unknown_node_gets_nothing<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    lab.due(&job).await;
    let stranger = domain::id::NodeId(lab.id());
    assert_eq!(lab.claim(stranger, want(5)).await, []);
    assert_eq!(lab.claim(node, want(5)).await.len(), 1);
}

pub async fn fences_grow_with_every_grant<B: Bench>(lab: &Lab<B>) {
    let nodes = [lab.node().await, lab.node().await];
    let job = lab.job("job").await;
    let due_at = lab.ago(60).await;
    let mut fences = Vec::new();
    for round in 0..4 {
        let node = nodes[round % 2];
        let runs: Vec<_> = (0..5).map(|n| lab.run(&job, due_at + seconds(n))).collect();
        let born = ClaimFor { node, max: processes(2) };
        let submitted = lab.store.submit(&runs, Some(born)).await.unwrap();
        fences.extend(submitted.claimed.iter().map(|claimed| claimed.grant.fence));
        let claimed = lab.claim(node, want(5)).await;
        fences.extend(claimed.iter().map(|claimed| claimed.grant.fence));
    }
    assert_eq!(fences.len(), 20);
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

pub async fn a_later_grant_of_a_run_has_a_larger_fence_and_turn<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let mut last = lab.started(node, &job).await;
    let other = lab.job("other").await;
    for _ in 0..3 {
        lab.finish(node, untried(&last, Verdict::Release)).await;
        // Others are granted meanwhile.
        lab.due(&other).await;
        let again = lab.claim(node, want(5)).await;
        let again = again.into_iter().find(|again| again.run.id == last.run.id).unwrap();
        assert!(again.grant.fence > last.grant.fence, "{:?} after {:?}", again.grant, last.grant);
        assert!(again.grant.turn > last.grant.turn);
        last = again;
    }
}

/// A claim may begin where the one before ended, but not for long: released runs, and runs that
/// come late with an early time, are claimed before the others are through.
pub async fn large_claims_find_what_comes_back<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(3_600).await;
    let runs: Vec<_> = (0..2_000).map(|n| lab.run(&job, due_at + seconds(n))).collect();
    lab.submit(&runs).await;
    let first = lab.claim(node, want(100)).await;
    assert_eq!(ids(&first), ids_of(&runs[..100]));
    lab.finish(node, untried(&first[7], Verdict::Release)).await;
    let early = lab.run(&job, due_at - seconds(9));
    lab.submit(std::slice::from_ref(&early)).await;
    let mut seen: Vec<_> = ids(&first).into_iter().filter(|id| *id != first[7].run.id).collect();
    for _ in 0..10 {
        seen.extend(ids(&lab.claim(node, want(100)).await));
    }
    assert!(seen.contains(&early.id), "the early one waits until the others are through");
    assert!(seen.contains(&first[7].run.id), "what came back waits until the others are through");
    while let claimed @ [_, ..] = &*lab.claim(node, want(100)).await {
        seen.extend(ids(claimed));
    }
    assert_eq!(seen.len(), 2_001, "each one is handed out");
    assert_eq!(seen.into_iter().collect::<HashSet<_>>().len(), 2_001, "none is handed out twice");
}

/// Eight nodes behind three handles take 600 runs of three tenants: each run goes to one of them.
pub async fn no_run_is_handed_out_twice<B: Bench>(lab: &Lab<B>) {
    const RUNS: usize = 600;
    let job = lab.job("job").await;
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..RUNS)
        .map(|n| NewRun { tenant: tenant(1 + n as u128 % 3), ..lab.run(&job, due_at) })
        .collect();
    lab.submit(&runs).await;
    let handles = [lab.bench.handle().await, lab.bench.handle().await, lab.bench.handle().await];
    let taken = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let store = Arc::clone(&handles[n % 3]);
        let node = lab.node_behind(&store).await;
        let taken = Arc::clone(&taken);
        tasks.spawn(async move {
            let mut mine = Vec::new();
            while taken.load(Ordering::SeqCst) < RUNS {
                let claimed = store.complete_and_claim(node, &[], want(7)).await.unwrap().claimed;
                taken.fetch_add(claimed.len(), Ordering::SeqCst);
                mine.extend(claimed);
            }
            mine
        });
    }
    let all: Vec<ClaimedRun> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(all.len(), RUNS);
    assert_eq!(all.iter().map(|claimed| claimed.grant.run).collect::<HashSet<_>>().len(), RUNS);
    assert_eq!(all.iter().map(|claimed| claimed.grant.fence).collect::<HashSet<_>>().len(), RUNS);
}

/// Submitting, claiming, giving back and finishing at once: every run ends once.
pub async fn every_run_ends_once_among_many_nodes<B: Bench>(lab: &Lab<B>) {
    const RUNS: usize = 400;
    let job = lab.job("job").await;
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..RUNS).map(|_| lab.run(&job, due_at)).collect();
    let handles = [lab.bench.handle().await, lab.bench.handle().await];
    let ended = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for (n, chunk) in runs.chunks(RUNS / 4).enumerate() {
        let (store, chunk) = (Arc::clone(&handles[n % 2]), chunk.to_vec());
        let node = lab.node_behind(&store).await;
        let ended = Arc::clone(&ended);
        tasks.spawn(async move {
            let born = Some(ClaimFor { node, max: processes(10) });
            let mut mine = store.submit(&chunk, born).await.unwrap().claimed;
            let mut fences = Vec::new();
            while ended.load(Ordering::SeqCst) < RUNS {
                fences.extend(mine.iter().map(|claimed| claimed.grant.fence));
                // Every fifth is released, and goes to the first node that claims it.
                let done: Vec<_> = mine
                    .iter()
                    .enumerate()
                    .map(|(n, claimed)| match n % 5 {
                        4 => untried(claimed, Verdict::Release),
                        _ => completed(node, claimed),
                    })
                    .collect();
                let exchanged = store.complete_and_claim(node, &done, want(20)).await.unwrap();
                let ends = exchanged.applied.iter();
                let ends = ends.filter(|applied| **applied == Applied::Ended(Outcome::Completed));
                ended.fetch_add(ends.count(), Ordering::SeqCst);
                assert!(!exchanged.applied.contains(&Applied::Stale));
                mine = exchanged.claimed;
            }
            fences
        });
    }
    let fences: Vec<i64> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(fences.iter().collect::<HashSet<_>>().len(), fences.len(), "a fence came twice");
    assert_eq!(ended.load(Ordering::SeqCst), RUNS);
    let counts = lab.store.counts().await.unwrap();
    assert_eq!(counts.live, store::LiveCounts::default());
    let page = lab.store.list_runs(&RunFilter::of_job(job.id), None, 1_000).await.unwrap();
    assert_eq!(page.items.len(), RUNS);
    assert!(page.items.iter().all(|run| run.state == RunState::Ended(Outcome::Completed)));
}
