//! Everything at once: many tasks use every operation on the same few jobs, and the promises hold.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::facts::{EarlierRun, StartFacts};
use domain::id::{JobId, NodeId, RunId};
use domain::job::Job;
use domain::run::{ClaimedRun, NewRun, Outcome, RunState, Wait};
use jiff::Timestamp;
use store::{
    Applied, Cancelled, Change, ClaimFor, ClaimRequest, FactsFor, Finish, NodeInfo, Prepared,
    RetentionCutoff, RunFilter, SYSTEM, Store, Verdict,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ended, lost, processes, question, retried, seconds, skipped, stop, tenant,
    untried, want,
};

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

/// Observations of a task.
#[derive(Default)]
struct Seen {
    fences: Vec<i64>,
    completed: HashSet<RunId>,
    cancelled: HashSet<RunId>,
}

impl Seen {
    fn took(&mut self, claimed: &[ClaimedRun]) {
        self.fences.extend(claimed.iter().map(|claimed| claimed.grant.fence));
    }
}

fn finish(dice: &mut Dice, node: NodeId, held: &ClaimedRun, past: Timestamp) -> Finish {
    match dice.roll(20) {
        0..3 => retried(node, held, seconds(0)),
        3..5 => untried(held, Verdict::Release),
        5 => untried(held, Verdict::Wait(Wait::Overlap, Some(past))),
        6 => untried(held, Verdict::Wait(Wait::Upstream, Some(past))),
        7 => skipped(held, Outcome::Skipped),
        8 => ended(node, held, Outcome::Failed),
        _ => completed(node, held),
    }
}

/// Records runs of jobs that change meanwhile: those that are stale are made of the job as it is.
async fn submit_all<S: Store>(
    store: &S,
    runs: &[NewRun],
    claim: Option<ClaimFor>,
) -> Vec<ClaimedRun> {
    let (mut left, mut claimed) = (runs.to_vec(), Vec::new());
    while !left.is_empty() {
        let submitted = store.submit(&left, claim).await.unwrap();
        for (run, new) in left.iter().zip(&submitted.accepted) {
            assert_ne!(*new, submitted.stale.contains(&run.id), "new or stale");
        }
        claimed.extend(submitted.claimed);
        left.retain(|run| submitted.stale.contains(&run.id));
        for run in &mut left {
            run.job_version = store.jobs_by_id(&[run.job]).await.unwrap()[0].version;
        }
    }
    claimed
}

/// A node that works, and now and then loses its lease and comes back as another one.
async fn work<S: Store>(store: Arc<S>, mut dice: Dice, runs: Vec<NewRun>, past: Timestamp) -> Seen {
    let mut seen = Seen::default();
    let mut life = u128::from(dice.0) << 32;
    let mut node = NodeId(Uuid::from_u128(life));
    store.join(node, &NodeInfo::named("worker"), seconds(3_600)).await.unwrap();
    let mut held: Vec<ClaimedRun> = Vec::new();
    for batch in runs.chunks(4) {
        // Every batch is sent twice, and the second time nothing is new.
        let claim = Some(ClaimFor { node, max: processes(2) });
        let claimed = submit_all(&*store, batch, claim).await;
        assert!(!store.submit(batch, claim).await.unwrap().accepted.contains(&true));
        seen.took(&claimed);
        held.extend(claimed);
        let about = |held: &ClaimedRun| FactsFor {
            grant: held.grant,
            job: held.run.job,
            others: true,
            upstream: vec![held.run.job],
            quorum: true,
        };
        store.facts(node, &held.iter().map(about).collect::<Vec<_>>()).await.unwrap();
        let done: Vec<_> = held.iter().map(|held| finish(&mut dice, node, held, past)).collect();
        let exchanged = store.complete_and_claim(node, &done, want(3)).await.unwrap();
        let ends = held.iter().zip(&exchanged.applied);
        let ends = ends.filter(|(_, end)| **end == Applied::Ended(Outcome::Completed));
        for (held, _) in ends {
            assert!(seen.completed.insert(held.run.id), "a run ended twice");
        }
        seen.took(&exchanged.claimed);
        held = exchanged.claimed;
        let leaves = match dice.roll(12) {
            0 => store.renew(node, seconds(-1)).await.unwrap().is_none(),
            1 => store.leave(node, &[]).await.map(|()| true).unwrap(),
            _ => store.renew(node, seconds(3_600)).await.unwrap().is_none(),
        };
        if leaves {
            life += 1;
            node = NodeId(Uuid::from_u128(life));
            held.clear();
            store.join(node, &NodeInfo::named("worker again"), seconds(3_600)).await.unwrap();
        }
    }
    store.leave(node, &[]).await.unwrap();
    seen
}

/// Declares nodes dead and settles their runs.
async fn settle_all_lost<S: Store>(store: &S) -> usize {
    let reaped = store.reap(50).await.unwrap();
    let settled: Vec<_> = reaped.lost.iter().map(|it| lost(it.node, &it.run)).collect();
    store.settle_lost(&settled).await.unwrap();
    settled.len()
}

/// Cancels, changes, prunes and reads until the work is over.
async fn trouble<S: Store>(
    store: Arc<S>,
    mut dice: Dice,
    mut jobs: Vec<Job>,
    runs: Vec<RunId>,
    working: Arc<AtomicUsize>,
) -> Seen {
    let mut seen = Seen::default();
    while working.load(Ordering::SeqCst) > 0 {
        let run = runs[dice.roll(runs.len())];
        match store.cancel(run, &stop(), SYSTEM).await.unwrap() {
            Cancelled::Ended | Cancelled::Requested(_) => drop(seen.cancelled.insert(run)),
            Cancelled::EndedBefore(_) | Cancelled::HasSteps | Cancelled::NotFound => {}
        }
        settle_all_lost(&*store).await;
        let place = dice.roll(jobs.len());
        let job = &mut jobs[place];
        job.version += 1;
        let expected = Some(job.version - 1);
        let change = Change {
            job: job.clone(),
            expected,
            prepared: Prepared::Keep,
            plan: None,
            changed: Vec::new(),
        };
        store.define(&[change], SYSTEM).await.unwrap();
        let all = Timestamp::UNIX_EPOCH;
        let cut = RetentionCutoff {
            job: Some(job.id),
            before: all,
            failed_before: all,
            keep_last: None,
            sample: None,
        };
        assert_eq!(store.prune(&cut, 10).await.unwrap(), 0);
        let page = store.list_runs(&RunFilter::of_job(job.id), None, 1_000).await.unwrap().items;
        let once: HashSet<_> = page.iter().map(|run| run.id).collect();
        assert_eq!(once.len(), page.len(), "a run was live and ended at once");
        store.counts().await.unwrap();
    }
    seen
}

/// Takes all remaining runs, whichever node held them, until there are none.
async fn sweep<B: Bench>(lab: &Lab<B>) -> Vec<i64> {
    let node = lab.node().await;
    let mut fences = Vec::new();
    for _ in 0..1_000 {
        settle_all_lost(&*lab.store).await;
        let held = lab.claim(node, want(100)).await;
        fences.extend(held.iter().map(|held| held.grant.fence));
        let done: Vec<_> = held.iter().map(|held| completed(node, held)).collect();
        lab.store.complete_and_claim(node, &done, store::ClaimRequest::default()).await.unwrap();
        let counts = lab.store.counts().await.unwrap();
        if counts.live.running + counts.live.queued + counts.live.pending == 0 {
            return fences;
        }
    }
    panic!("something never ends: {:?}", lab.store.counts().await);
}

pub async fn every_verb_at_once<B: Bench>(lab: &Lab<B>) {
    let first = lab.job("first").await;
    let jobs = vec![lab.job_after("second", &[&first]).await, lab.job("third").await, first];
    let past = lab.ago(60).await;
    let runs: Vec<_> = (0..480)
        .map(|n| NewRun { tenant: tenant(1 + n % 4), ..lab.run(&jobs[n as usize % 3], past) })
        .collect();
    let ids: Vec<_> = runs.iter().map(|run| run.id).collect();
    let handles = [lab.bench.handle().await, lab.bench.handle().await];
    let working = Arc::new(AtomicUsize::new(4));
    let mut tasks = JoinSet::new();
    for (n, part) in runs.chunks(120).enumerate() {
        let (store, dice) = (Arc::clone(&handles[n % 2]), Dice(0x9e37_79b9 + n as u64));
        let (part, working) = (part.to_vec(), Arc::clone(&working));
        tasks.spawn(async move {
            let seen = work(store, dice, part, past).await;
            working.fetch_sub(1, Ordering::SeqCst);
            seen
        });
    }
    let (handle, dice) = (lab.bench.handle().await, Dice(0x85eb_ca6b));
    tasks.spawn(trouble(handle, dice, jobs.clone(), ids, working));
    let seen = tasks.join_all().await;
    let mut fences = sweep(lab).await;
    fences.extend(seen.iter().flat_map(|seen| &seen.fences));
    assert_eq!(fences.iter().collect::<HashSet<_>>().len(), fences.len(), "a fence came twice");
    for run in &runs {
        let RunState::Ended(outcome) = lab.state(run.id).await else { panic!("{run:?} is live") };
        let completed = seen.iter().filter(|seen| seen.completed.contains(&run.id)).count();
        assert!(completed <= 1, "a run was completed twice");
        assert!(completed == 0 || outcome == Outcome::Completed);
        let cancelled = seen.iter().any(|seen| seen.cancelled.contains(&run.id));
        assert!(!cancelled || outcome == Outcome::Cancelled, "{outcome} after a cancel");
    }
    let mut recorded = 0;
    for job in &jobs {
        recorded +=
            lab.store.list_runs(&RunFilter::of_job(job.id), None, 1_000).await.unwrap().items.len();
    }
    assert_eq!(recorded, runs.len());
}

/// How a run goes on when its node has looked, as an engine would decide.
fn decided(node: NodeId, held: &ClaimedRun, facts: &StartFacts) -> Finish {
    if facts.upstream.iter().any(|upstream| upstream.last.is_none()) {
        return untried(held, Verdict::Wait(Wait::Upstream, None));
    }
    let blocks = |earlier: &EarlierRun| earlier.wait != Some(Wait::Upstream);
    if facts.earlier.iter().any(blocks) {
        return untried(held, Verdict::Wait(Wait::Overlap, None));
    }
    completed(node, held)
}

/// A node that claims, looks and decides until every run has ended.
async fn take_turns<S: Store>(store: Arc<S>, node: NodeId, upstream: HashMap<JobId, JobId>) {
    loop {
        let held = store.complete_and_claim(node, &[], want(2)).await.unwrap().claimed;
        if held.is_empty() {
            let counts = store.counts().await.unwrap();
            if counts.live.running + counts.live.queued + counts.live.pending == 0 {
                return;
            }
            let is_stuck = counts.live.running + counts.live.queued == 0;
            assert!(
                !is_stuck,
                "{} runs wait, and no run is left whose end wakes them",
                counts.live.pending
            );
        }
        let about = |held: &ClaimedRun| FactsFor {
            others: true,
            upstream: upstream.get(&held.run.job).copied().into_iter().collect(),
            ..question(held)
        };
        let questions: Vec<_> = held.iter().map(about).collect();
        let facts = store.facts(node, &questions).await.unwrap();
        let done = held.iter().zip(&facts).map(|(held, facts)| decided(node, held, facts));
        // Each by itself: a call that also claims or waits takes other locks than one that only
        // ends runs.
        for finish in done {
            store.complete_and_claim(node, &[finish], ClaimRequest::default()).await.unwrap();
        }
    }
}

/// Runs end while others begin to wait for their ends. No wait has a limit here, so a run whose
/// wake-up is missed waits for ever.
pub async fn no_wake_up_is_lost<B: Bench>(lab: &Lab<B>) {
    let past = lab.ago(60).await;
    let mut nodes = Vec::new();
    for _ in 0..4 {
        let handle = lab.bench.handle().await;
        nodes.push((lab.node_behind(&handle).await, handle));
    }
    for round in 0..20 {
        let line = lab.job(&format!("line {round}")).await;
        let cause = lab.job(&format!("cause {round}")).await;
        let effect = lab.job_after(&format!("effect {round}"), &[&cause]).await;
        let of = |job: &Job, count: usize| vec![lab.run(job, past); count].into_iter();
        let runs: Vec<_> = of(&line, 4).chain(of(&cause, 2)).chain(of(&effect, 4)).collect();
        let runs = runs.into_iter().map(|run| NewRun { id: lab.run(&line, past).id, ..run });
        let mut runs: Vec<_> = runs.collect();
        // Each run comes at another position in each round.
        let first = round % runs.len();
        runs.rotate_left(first);
        for (n, run) in runs.iter_mut().enumerate() {
            run.due_at = past + seconds(n as i64);
        }
        lab.submit(&runs).await;
        let upstream = HashMap::from([(effect.id, cause.id)]);
        let mut turns = JoinSet::new();
        for (node, handle) in &nodes {
            turns.spawn(take_turns(Arc::clone(handle), *node, upstream.clone()));
        }
        turns.join_all().await;
        for run in &runs {
            assert_eq!(lab.state(run.id).await, RunState::Ended(Outcome::Completed));
        }
    }
}
