//! Reading: runs in every state, pages, counts, and the graph of jobs.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use domain::id::{JobId, RunId, TenantId};
use domain::job::{Job, JobState};
use domain::run::{Origin, RunState, Wait};
use store::{
    ClaimRequest, Counts, JobFilter, LiveCounts, Prepared, RunFilter, RunQueries, SYSTEM, Store,
    Verdict,
};

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, minutes, retried, seconds, stop, tenant, untried, want, want_soon,
};

/// The state of a live run follows from its time, its holder and its wait.
pub async fn the_state_of_a_live_run_is_derived<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let later = lab.tick(&job, now + minutes(30));
    lab.submit(std::slice::from_ref(&later)).await;
    assert_eq!(lab.state(later.id).await, RunState::Pending);
    lab.claim(node, want_soon(9)).await;
    let prepared = lab.view(later.id).await;
    assert_eq!((prepared.state, prepared.node), (RunState::Pending, Some(node)));
    let due = lab.due(&job).await;
    let queued = lab.view(due.id).await;
    assert_eq!((queued.state, queued.node, queued.fence), (RunState::Queued, None, None));
    assert_eq!((queued.reason, queued.started_at, queued.finished_at), (None, None, None));
    let claimed = lab.claim_one(node).await;
    let running = lab.view(due.id).await;
    assert_eq!((running.state, running.node), (RunState::Running, Some(node)));
    assert_eq!((running.job, running.tenant), (job.id, job.tenant));
    assert_eq!(
        (running.scheduled_for, running.scheduled_last),
        (due.scheduled_for, due.scheduled_for)
    );
    assert_eq!((running.count, running.origin, running.due_at), (1, Origin::Manual, due.due_at));
    let until = Some(now + minutes(9));
    lab.finish(node, untried(&claimed, Verdict::Wait(Wait::Upstream, until))).await;
    assert_eq!(lab.state(due.id).await, RunState::Pending);
    assert_eq!(lab.store.run(RunId(lab.id())).await.unwrap(), None);
    assert_eq!(lab.store.attempts(due.id).await.unwrap(), []);
}

/// A page mixes live and ended runs, newest first, and the next page begins where it ended.
pub async fn pages_of_runs_go_back_in_time<B: Bench>(lab: &Lab<B>) {
    let (node, job, other) = (lab.node().await, lab.job("job").await, lab.job("other").await);
    let now = lab.now().await;
    let runs: Vec<_> = (0..11).map(|n| lab.run(&job, now - minutes(60 - n))).collect();
    lab.submit(&runs).await;
    lab.due(&other).await;
    for (n, run) in runs.iter().enumerate().filter(|(n, _)| n % 3 != 1) {
        match n % 3 {
            0 => drop(lab.store.cancel(run.id, &stop(), SYSTEM).await.unwrap()),
            _ => {
                let held = lab.claim(node, ClaimRequest { tenant_max: None, ..want(99) }).await;
                let done: Vec<_> = held
                    .iter()
                    .map(|held| match held.run.id == run.id {
                        true => completed(node, held),
                        false => untried(held, Verdict::Release),
                    })
                    .collect();
                lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
            }
        }
    }
    let mut expected: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    expected.reverse();
    for limit in [1, 3, 4, 11, 12, 100] {
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page =
                lab.store.list_runs(&RunFilter::of_job(job.id), before, limit).await.unwrap();
            assert!(page.items.len() <= limit as usize);
            seen.extend(page.items.iter().map(|run| run.id));
            let Some(next) = page.next else { break };
            assert_eq!(page.items.len(), limit as usize, "a page before the last one is full");
            before = Some(next);
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
    let page = lab.store.list_runs(&RunFilter::of_job(JobId(lab.id())), None, 9).await.unwrap();
    assert_eq!((page.items.len(), page.next), (0, None));
    for run in lab.store.list_runs(&RunFilter::of_job(job.id), None, 99).await.unwrap().items {
        assert_eq!(run, lab.view(run.id).await);
    }
}

pub async fn pages_of_jobs_go_by_name<B: Bench>(lab: &Lab<B>) {
    let mut names = vec!["Ähre", "a", "B", "b", "aa", "job 10", "job 2", "Z", "ß", "日本", "🦀"];
    for name in &names {
        lab.job(name).await;
    }
    let mut elsewhere = lab.draft("c").await;
    elsewhere.tenant = tenant(9);
    lab.create(&elsewhere).await;
    let mut gone = lab.job("deleted").await;
    gone.state = JobState::Deleted;
    lab.update(&mut gone, Prepared::Drop).await;
    // By the bytes of the name, the same on every store and machine.
    names.sort_unstable();
    for limit in [1, 2, 5, 11, 99] {
        let mut seen = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = lab
                .store
                .list_jobs(&JobFilter::of_tenant(TenantId::DEFAULT), after.as_deref(), limit)
                .await
                .unwrap();
            seen.extend(page.items.into_iter().map(|job| job.name));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, names, "in pages of {limit}");
    }
    let page = lab.store.list_jobs(&JobFilter::of_tenant(tenant(9)), None, 9).await.unwrap();
    assert_eq!((page.items, page.next), (vec![elsewhere], None));
}

pub async fn jobs_are_found_by_id<B: Bench>(lab: &Lab<B>) {
    let (first, second, mut gone) =
        (lab.job("first").await, lab.job("second").await, lab.job("gone").await);
    gone.state = JobState::Deleted;
    lab.update(&mut gone, Prepared::Drop).await;
    let asked = [second.id, JobId(lab.id()), gone.id, first.id];
    let mut found = lab.store.jobs_by_id(&asked).await.unwrap();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(found, [first.clone(), second]);
    assert_eq!(lab.store.jobs_by_id(&[]).await.unwrap(), []);
    assert_eq!(lab.store.job_by_name(tenant(9), "first").await.unwrap(), None);
}

pub async fn the_graph_holds_what_is_not_deleted<B: Bench>(lab: &Lab<B>) {
    let (first, second) = (lab.job("first").await, lab.job("second").await);
    let both = lab.job_after("both", &[&first, &second]).await;
    let chain = lab.job_after("chain", &[&both]).await;
    let mut gone = lab.job_after("gone", &[&first]).await;
    let mut elsewhere = lab.draft("elsewhere").await;
    elsewhere.tenant = tenant(9);
    elsewhere.definition.depends_on = both.definition.depends_on.clone();
    lab.create(&elsewhere).await;
    gone.state = JobState::Deleted;
    lab.update(&mut gone, Prepared::Drop).await;
    let edges = |job: &Job, upstream: &Job| (job.id, upstream.id);
    let mut expected = [edges(&both, &first), edges(&both, &second), edges(&chain, &both)];
    expected.sort();
    let mut found = lab.store.dependencies(TenantId::DEFAULT).await.unwrap();
    found.sort();
    assert_eq!(found, expected);
}

pub async fn counts_tell_what_there_is<B: Bench>(lab: &Lab<B>) {
    assert_eq!(lab.store.counts().await.unwrap(), Counts::default());
    let (node, job) = (lab.node().await, lab.job("job").await);
    let mut gone = lab.job("gone").await;
    gone.state = JobState::Deleted;
    lab.update(&mut gone, Prepared::Drop).await;
    let mut paused = lab.job("paused").await;
    paused.state = JobState::Paused;
    lab.update(&mut paused, Prepared::Keep).await;
    let now = lab.now().await;
    // One that ended, one that is tried again later, one that waits, one that runs.
    let runs: Vec<_> = (0..4).map(|n| lab.run(&job, now - minutes(90 - n))).collect();
    lab.submit(&runs).await;
    let held = lab.claim(node, want(9)).await;
    let done = [
        completed(node, &held[0]),
        retried(node, &held[1], minutes(9)),
        untried(&held[2], Verdict::Wait(Wait::Upstream, None)),
    ];
    lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    // One that is to come, one that is prepared, two that are due.
    lab.submit(&[lab.run(&job, now + minutes(10))]).await;
    lab.claim(node, ClaimRequest { soon: 1, ahead: minutes(20), ..ClaimRequest::default() }).await;
    let oldest = lab.run(&job, now - seconds(30));
    let newer = lab.run(&job, now - seconds(20));
    lab.submit(&[lab.run(&job, now + minutes(30)), newer, oldest.clone()]).await;
    let live = LiveCounts { pending: 4, queued: 2, running: 1, oldest_due: Some(oldest.due_at) };
    assert_eq!(lab.store.counts().await.unwrap(), Counts { jobs: 2, live });
    assert_eq!(lab.store.live(job.tenant).await.unwrap(), live, "a tenant's are counted alike");
}

/// A waiter for changes is woken by one.
pub async fn a_change_is_heard_of<B: Bench>(lab: &Lab<B>) {
    let handle = lab.bench.handle().await;
    let mut heard = pin!(handle.changed());
    let mut n = 0;
    // A hint may be missing, but not for ever.
    while !poll_once(heard.as_mut()).await {
        assert!(n < 1_000, "a thousand changes, and no hint");
        lab.job(&format!("job {n}")).await;
        n += 1;
    }
    assert!(n > 0, "there was a hint before there was a change");
}

async fn poll_once(mut future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}
