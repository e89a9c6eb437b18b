//! Submitting: known runs are not recorded again, and due ones may be born claimed.

use std::collections::HashSet;
use std::sync::Arc;

use domain::id::NodeId;
use domain::job::JobState;
use domain::run::{NewRun, Outcome, RunState};
use store::{Cancelled, ClaimFor, Prepared, RunFilter, SYSTEM, Store};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::lab::{Lab, completed, ids, ids_of, minutes, processes, seconds, stop, want};

pub async fn a_run_is_recorded_once<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let run = lab.run(&job, lab.ago(60).await);
    let other = lab.run(&job, lab.ago(30).await);
    let batch = [run.clone(), run.clone(), other.clone()];
    assert_eq!(lab.store.submit(&batch, None).await.unwrap().accepted, [true, false, true]);
    // Again while it waits, while a node holds it, and after its end.
    assert_eq!(lab.store.submit(&batch, None).await.unwrap().accepted, [false; 3]);
    let claimed = lab.claim(node, want(1)).await.remove(0);
    assert_eq!(lab.store.submit(&batch, None).await.unwrap().accepted, [false; 3]);
    lab.finish(node, completed(node, &claimed)).await;
    assert_eq!(lab.store.submit(&batch, None).await.unwrap().accepted, [false; 3]);
    assert_eq!(ids(&lab.claim(node, want(9)).await), [other.id]);
    assert_eq!(lab.state(run.id).await, RunState::Ended(Outcome::Completed));
    assert_eq!(
        lab.store.list_runs(&RunFilter::of_job(job.id), None, 9).await.unwrap().items.len(),
        2
    );
}

pub async fn a_cancelled_run_does_not_come_back<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let run = lab.due(&job).await;
    assert_eq!(lab.store.cancel(run.id, &stop(), SYSTEM).await.unwrap(), Cancelled::Ended);
    let born = Some(ClaimFor { node, max: processes(1) });
    let submitted = lab.store.submit(&[run], born).await.unwrap();
    assert_eq!((submitted.accepted, submitted.claimed), (vec![false], vec![]));
    assert_eq!(lab.claim(node, want(9)).await, []);
}

pub async fn the_first_that_are_due_are_born_claimed<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let later = lab.run(&job, now + minutes(30));
    let due: Vec<_> = (0..4).map(|n| lab.run(&job, now - seconds(60 - n))).collect();
    let batch = [vec![later.clone()], due.clone()].concat();
    let born = Some(ClaimFor { node, max: processes(3) });
    let submitted = lab.store.submit(&batch, born).await.unwrap();
    assert_eq!(submitted.accepted, [true; 5]);
    assert_eq!(ids(&submitted.claimed), ids_of(&due[..3]));
    for (claimed, run) in submitted.claimed.iter().zip(&due) {
        assert_eq!(claimed.run, *run);
        assert_eq!((claimed.attempts, claimed.lost, claimed.grant.turn), (0, 0, 0));
        assert_eq!(lab.view(run.id).await.node, Some(node));
        assert_eq!(lab.state(run.id).await, RunState::Running);
    }
    assert_eq!(lab.state(later.id).await, RunState::Pending);
    // They end like any other, and the rest can be claimed by any node.
    let claimed = lab.claim(lab.node().await, want(9)).await;
    assert_eq!(ids(&claimed), [due[3].id]);
    let finish = completed(node, &submitted.claimed[1]);
    lab.finish(node, finish).await;
    assert_eq!(lab.state(due[1].id).await, RunState::Ended(Outcome::Completed));
}

pub async fn a_known_run_is_not_claimed_by_sending_it_again<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.run(&job, lab.ago(60).await);
    let born = Some(ClaimFor { node, max: processes(5) });
    let first = lab.store.submit(std::slice::from_ref(&held), born).await.unwrap().claimed;
    let other = lab.node().await;
    let born = Some(ClaimFor { node: other, max: processes(5) });
    let again = lab.store.submit(std::slice::from_ref(&held), born).await.unwrap();
    assert_eq!((again.accepted, again.claimed), (vec![false], vec![]));
    assert_eq!(lab.view(held.id).await.node, Some(node));
    assert_eq!(
        lab.finish(node, completed(node, &first[0])).await,
        store::Applied::Ended(Outcome::Completed)
    );
}

/// A node that is unknown, has left or is declared dead gets nothing; the run is recorded all the
/// same.
pub async fn a_dead_node_gets_none_of_what_it_submits<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let stranger = NodeId(lab.id());
    let left = lab.node().await;
    lab.store.leave(left, &[]).await.unwrap();
    let dead = lab.node().await;
    lab.expire(dead).await;
    lab.store.reap(10).await.unwrap();
    for node in [stranger, left, dead] {
        let run = lab.run(&job, lab.ago(60).await);
        let born = Some(ClaimFor { node, max: processes(1) });
        let submitted = lab.store.submit(std::slice::from_ref(&run), born).await.unwrap();
        assert_eq!((submitted.accepted, submitted.claimed), (vec![true], vec![]));
        assert_eq!(lab.state(run.id).await, RunState::Queued);
    }
}

pub async fn no_room_claims_nothing<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let run = lab.run(&job, lab.ago(60).await);
    let submitted =
        lab.store.submit(&[run], Some(ClaimFor { node, max: processes(0) })).await.unwrap();
    assert_eq!((submitted.accepted, submitted.claimed), (vec![true], vec![]));
    assert!(lab.store.submit(&[], None).await.unwrap().accepted.is_empty());
}

/// The same run from many handles at once: one of them brought it.
pub async fn racing_submits_record_a_run_once<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..50).map(|_| lab.run(&job, due_at)).collect();
    let handles = [lab.bench.handle().await, lab.bench.handle().await];
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let (store, mut runs) = (Arc::clone(&handles[n % 2]), runs.clone());
        let node = lab.node_behind(&store).await;
        // Each sends them in another order.
        runs.rotate_left(n * 6);
        tasks.spawn(async move {
            let born = Some(ClaimFor { node, max: processes(3) });
            store.submit(&runs, born).await.unwrap()
        });
    }
    let answers = tasks.join_all().await;
    let accepted = answers.iter().flat_map(|answer| &answer.accepted).filter(|new| **new).count();
    assert_eq!(accepted, 50);
    let claimed: Vec<_> = answers.iter().flat_map(|answer| ids(&answer.claimed)).collect();
    let counts = lab.store.counts().await.unwrap();
    assert_eq!(counts.live.running as usize, claimed.len());
    assert_eq!(counts.live.running + counts.live.queued, 50);
}

/// However many there are, and whichever node writes them.
pub async fn a_large_batch_records_each_run_once<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(60).await;
    let known = lab.due(&job).await;
    let mut batch: Vec<_> = (0..700).map(|_| lab.run(&job, due_at)).collect();
    batch.push(known.clone());
    batch.extend_from_within(..600);
    let submitted =
        lab.store.submit(&batch, Some(ClaimFor { node, max: processes(9) })).await.unwrap();
    assert_eq!(submitted.accepted.len(), batch.len());
    let accepted = batch.iter().zip(&submitted.accepted).filter(|(_, new)| **new);
    let accepted: Vec<_> = accepted.map(|(run, _)| run.id).collect();
    assert_eq!(accepted.len(), 700);
    assert!(!accepted.contains(&known.id), "it was there before");
    let mut held = ids(&submitted.claimed);
    held.extend(ids(&lab.claim(node, want(2_000)).await));
    assert_eq!(held.len(), 701);
    let held: HashSet<_> = held.into_iter().collect();
    assert!(held.contains(&known.id) && accepted.iter().all(|id| held.contains(id)));
}

/// A caller may have read the job long ago: the store records no run of an outdated version, and
/// reports it.
pub async fn a_run_of_another_version_of_its_job_is_not_recorded<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (mut job, other) = (lab.job("job").await, lab.job("other").await);
    let (mut deleted, unknown) = (lab.job("deleted").await, lab.draft("unknown").await);
    let due_at = lab.ago(60).await;
    let old = lab.run(&job, due_at);
    lab.update(&mut job, Prepared::Keep).await;
    let of_deleted = lab.run(&deleted, due_at);
    deleted.state = JobState::Deleted;
    lab.update(&mut deleted, Prepared::Drop).await;
    let of_deleted_now = lab.run(&deleted, due_at);
    let batch = [
        old.clone(),
        lab.run(&job, due_at),
        of_deleted.clone(),
        of_deleted_now.clone(),
        lab.run(&unknown, due_at),
        lab.run(&other, due_at),
    ];
    let stale = vec![batch[0].id, batch[2].id, batch[3].id, batch[4].id];
    let born = Some(ClaimFor { node, max: processes(9) });
    let submitted = lab.store.submit(&batch, born).await.unwrap();
    assert_eq!(submitted.accepted, [false, true, false, false, false, true]);
    assert_eq!(submitted.stale, stale);
    assert_eq!(ids(&submitted.claimed), [batch[1].id, batch[5].id]);
    for id in &stale {
        assert_eq!(lab.store.run(*id).await.unwrap(), None);
    }
    // Where some are known already, the others are looked at as closely.
    let again = lab.store.submit(&batch, born).await.unwrap();
    assert_eq!((again.accepted, again.stale), (vec![false; 6], stale));
    assert_eq!(again.claimed, []);
    // And so they are where a batch is large.
    let mut many: Vec<_> = (0..600).map(|_| lab.run(&job, due_at)).collect();
    many.extend([old.clone(), lab.run(&other, due_at)]);
    let submitted = lab.store.submit(&many, born).await.unwrap();
    assert_eq!(submitted.stale, [old.id]);
    assert_eq!(submitted.accepted.iter().filter(|new| **new).count(), 601);
    // A run that was recorded before the job changed is known, whatever version it is sent with.
    lab.update(&mut job, Prepared::Keep).await;
    let known = NewRun { job_version: job.version, ..batch[1].clone() };
    let submitted = lab.store.submit(&[known], None).await.unwrap();
    assert_eq!((submitted.accepted, submitted.stale), (vec![false], vec![]));
}
