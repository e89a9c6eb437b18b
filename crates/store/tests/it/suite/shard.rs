//! Shards and their owners, and runs that are split into child runs.

use domain::cluster::{NodeRole, Placement};
use domain::id::{NodeId, ObjectId, RunId, TenantId};
use domain::job::{Job, Overlap};
use domain::object::{Object, ObjectKind};
use domain::partition::part_again;
use domain::run::{AttemptResult, ClaimedRun, NewRun, Origin, Outcome, RunState, Wait};
use domain::shard::Ownership;
use store::{
    Applied, Cancelled, ClaimRequest, Cluster, FactsFor, Move, NamedResources, NodeInfo, ParentRun,
    Prepared, Put, RetentionCutoff, RunQueries, SYSTEM, Set, Shards, Store, Verdict,
};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{Lab, completed, ended, lost, minutes, question, seconds, stop, untried, want};

async fn node<B: Bench>(lab: &Lab<B>, name: &str) -> NodeId {
    let node = NodeId(lab.id());
    let info = NodeInfo { roles: NodeRole::ALL.to_vec(), ..NodeInfo::named(name) };
    lab.store.join(node, &info, minutes(60)).await.unwrap();
    node
}

/// A leader and its epoch.
async fn leader<B: Bench>(lab: &Lab<B>, name: &str) -> (NodeId, i64) {
    let node = node(lab, name).await;
    let leadership = lab.store.take_leadership(node).await.unwrap();
    assert_eq!(leadership.node, Some(node));
    (node, leadership.epoch)
}

async fn shard<B: Bench>(lab: &Lab<B>, name: &str) -> ObjectId {
    let now = lab.now().await;
    let object = Object {
        id: ObjectId(lab.id()),
        tenant: TenantId::DEFAULT,
        kind: ObjectKind::Shard,
        name: name.to_owned(),
        body: "{}".to_owned(),
        version: 0,
        created_at: now,
        changed_at: now,
    };
    match lab.store.put_object(&object, 0, SYSTEM).await.unwrap() {
        Put::Done(object) => object.id,
        other => panic!("{other:?}"),
    }
}

async fn owner<B: Bench>(lab: &Lab<B>, shard: ObjectId) -> Ownership {
    let shards = lab.store.shards(Some(TenantId::DEFAULT)).await.unwrap();
    shards.iter().find(|known| known.object.id == shard).expect("the shard is there").owner
}

async fn give<B: Bench>(lab: &Lab<B>, leader: (NodeId, i64), shard: ObjectId, to: NodeId) {
    let fence = owner(lab, shard).await.fence;
    let step = Move { shard, fence, to: Some(to) };
    assert_eq!(lab.store.assign(leader.0, leader.1, &[step]).await.unwrap(), Some(1));
}

/// Parts of a run, one for each shard, and one more without a shard for an empty list.
async fn parts_of<B: Bench>(lab: &Lab<B>, run: &NewRun, shards: &[ObjectId]) -> Vec<NewRun> {
    let now = lab.now().await;
    let part = |(n, shard): (usize, &ObjectId)| {
        part_again(run, n, &shard.to_string(), Some(format!("{{\"n\":{n}}}")), now)
    };
    match shards {
        [] => vec![part_again(run, 0, "", None, now)],
        _ => shards.iter().enumerate().map(part).collect(),
    }
}

async fn placed<B: Bench>(lab: &Lab<B>, node: NodeId) -> Vec<ClaimedRun> {
    lab.store.claim_placed(node, None, want(20)).await.unwrap()
}

/// A held run of a job, split over these shards; it waits for its parts.
async fn split<B: Bench>(
    lab: &Lab<B>,
    node: NodeId,
    job: &Job,
    shards: &[ObjectId],
) -> (ClaimedRun, Vec<NewRun>) {
    let run = lab.started(node, job).await;
    let parts = parts_of(lab, &run.run, shards).await;
    assert!(lab.store.split_run(ParentRun::Held(node, run.grant), &parts).await.unwrap());
    lab.wait(node, &run, Wait::Parts, None).await;
    let counts = lab.store.counts().await.unwrap().live;
    assert!(counts.running >= 1, "a run is running as long as its parts are live");
    assert_eq!(counts, lab.store.live(TenantId::DEFAULT).await.unwrap());
    (run, parts)
}

pub async fn only_the_leader_moves_shards_and_each_move_has_a_larger_fence<B: Bench>(lab: &Lab<B>) {
    let first = leader(lab, "a").await;
    let other = node(lab, "b").await;
    let (one, two) = (shard(lab, "one").await, shard(lab, "two").await);
    assert_eq!(owner(lab, one).await, Ownership::default());
    let step = |fence, to| Move { shard: one, fence, to };
    let assign =
        async |by: (NodeId, i64), step| lab.store.assign(by.0, by.1, &[step]).await.unwrap();
    assert_eq!(assign((other, first.1), step(0, Some(other))).await, None);
    assert_eq!(assign((first.0, first.1 + 1), step(0, Some(other))).await, None);
    assert_eq!(assign(first, step(0, Some(other))).await, Some(1));
    assert_eq!(owner(lab, one).await, Ownership { node: Some(other), fence: 1 });
    // A leader that saw an older owner moves no shard.
    assert_eq!(assign(first, step(0, Some(first.0))).await, Some(0));
    assert_eq!(assign(first, step(1, None)).await, Some(1));
    assert_eq!(owner(lab, one).await, Ownership { node: None, fence: 2 });
    assert_eq!(owner(lab, two).await, Ownership::default());
    // A dead leader moves nothing, in whichever epoch.
    lab.expire(first.0).await;
    lab.store.reap(9).await.unwrap();
    assert_eq!(assign(first, step(2, Some(first.0))).await, None);
    let next = lab.store.take_leadership(other).await.unwrap();
    assert_eq!(assign((other, next.epoch), step(2, Some(other))).await, Some(1));
    assert_eq!(owner(lab, one).await, Ownership { node: Some(other), fence: 3 });
    // A deleted shard has no owner, and gets none.
    let gone = lab.store.remove_object(TenantId::DEFAULT, one, 1, SYSTEM).await.unwrap();
    assert_eq!(gone, Set::Done(0));
    assert_eq!(assign((other, next.epoch), step(3, Some(other))).await, Some(0));
    assert_eq!(lab.store.shards(None).await.unwrap().len(), 1);
}

pub async fn only_the_owner_is_handed_the_runs_of_a_shard<B: Bench>(lab: &Lab<B>) {
    let first = leader(lab, "a").await;
    let other = node(lab, "b").await;
    let mut job = lab.job("job").await;
    let (one, two) = (shard(lab, "one").await, shard(lab, "two").await);
    give(lab, first, one, other).await;
    let (run, parts) = split(lab, first.0, &job, &[one, two]).await;
    // A change of the job changes nothing about where its parts belong.
    job.definition.priority = 7;
    lab.update(&mut job, Prepared::Keep).await;
    assert_eq!(lab.claim(other, want(9)).await, [], "plain claims leave parts alone");
    assert_eq!(placed(lab, first.0).await, []);
    let held = placed(lab, other).await;
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].run.id, parts[0].id);
    assert_eq!(held[0].run.place, Placement::from_shard(one));
    assert_eq!(held[0].run.parameters.as_deref(), Some("{\"n\":0}"));
    assert_eq!((held[0].run.origin, &held[0].run.shard), (Origin::Part, &one.to_string()));
    // It moves: claimed runs stay with their holder, later ones go to the new owner.
    give(lab, first, one, first.0).await;
    give(lab, first, two, other).await;
    assert_eq!(
        lab.finish(other, completed(other, &held[0])).await,
        Applied::Ended(Outcome::Completed)
    );
    assert_eq!(placed(lab, first.0).await, []);
    let rest = placed(lab, other).await;
    assert_eq!(rest[0].run.id, parts[1].id);
    // The owner misses heartbeats: no node gets its run before another node owns the shard.
    lab.expire(other).await;
    let reaped = lab.store.reap(9).await.unwrap();
    let settled: Vec<_> = reaped.lost.iter().map(|it| lost(it.node, &it.run)).collect();
    lab.store.settle_lost(&settled).await.unwrap();
    assert_eq!(placed(lab, other).await, []);
    assert_eq!(placed(lab, first.0).await, []);
    give(lab, first, two, first.0).await;
    let again = placed(lab, first.0).await;
    assert_eq!((again.len(), again[0].run.id, again[0].lost), (1, parts[1].id, 1));
    assert!(again[0].grant.fence > rest[0].grant.fence);
    assert_eq!(lab.state(run.run.id).await, RunState::Running);
    let view = lab.view(parts[0].id).await;
    assert_eq!(view.shard, one.to_string());
}

pub async fn a_run_is_split_once_by_its_holder<B: Bench>(lab: &Lab<B>) {
    let (node, other) = (lab.node().await, lab.node().await);
    let job = lab.job("job").await;
    let run = lab.started(node, &job).await;
    let parts = parts_of(lab, &run.run, &[]).await;
    let split = async |by, run: &ClaimedRun, parts: &[NewRun]| {
        lab.store.split_run(ParentRun::Held(by, run.grant), parts).await.unwrap()
    };
    assert!(!split(other, &run, &parts).await, "it is not the other's");
    assert!(!split(node, &run, &[]).await);
    assert_eq!(lab.store.parts(&[run.run.id]).await.unwrap(), []);
    assert!(split(node, &run, &parts).await);
    let others = vec![part_again(&run.run, 7, "", None, lab.now().await)];
    assert!(!split(node, &run, &others).await, "there are parts already");
    let known = lab.store.parts(&[run.run.id]).await.unwrap();
    assert_eq!(known.iter().map(|part| part.run).collect::<Vec<_>>(), [parts[0].id]);
    assert_eq!(known[0].parent, run.run.id);
    let parents = lab.store.parents(&[parts[0].id, run.run.id]).await.unwrap();
    assert_eq!(parents, [(parts[0].id, run.run.id)]);
    // A node that was declared dead meanwhile splits nothing.
    assert_eq!(lab.claim_one(node).await.run.id, parts[0].id);
    let late = lab.started(node, &job).await;
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    let parts = parts_of(lab, &late.run, &[]).await;
    assert!(!split(node, &late, &parts).await);
    // Nor is a run whose end was asked for.
    let held = lab.started(other, &job).await;
    assert_eq!(
        lab.store.cancel(held.run.id, &stop(), SYSTEM).await.unwrap(),
        Cancelled::Requested(other)
    );
    let parts = parts_of(lab, &held.run, &[]).await;
    assert!(!split(other, &held, &parts).await);
}

pub async fn a_split_run_waits_for_the_last_of_its_parts<B: Bench>(lab: &Lab<B>) {
    let first = leader(lab, "a").await;
    let node = first.0;
    let job = lab.job("job").await;
    let shards = [shard(lab, "one").await, shard(lab, "two").await];
    for shard in shards {
        give(lab, first, shard, node).await;
    }
    let (run, parts) = split(lab, node, &job, &shards).await;
    let id = run.run.id;
    assert_eq!(lab.state(id).await, RunState::Running);
    let held = placed(lab, node).await;
    assert_eq!(held.len(), 2);
    assert_eq!(lab.store.wake_split(&[id]).await.unwrap(), 0);
    lab.finish(node, completed(node, &held[0])).await;
    assert_eq!(lab.store.wake_split(&[held[0].run.id]).await.unwrap(), 0);
    lab.finish(node, ended(node, &held[1], Outcome::Failed)).await;
    assert_eq!(lab.claim(node, want(9)).await, [], "it waits until somebody wakes it");
    assert_eq!(lab.store.wake_split(&[parts[0].id, parts[1].id]).await.unwrap(), 1);
    assert_eq!(lab.store.wake_split(&[id]).await.unwrap(), 0);
    let outcomes: Vec<_> =
        lab.store.parts(&[id]).await.unwrap().iter().map(|part| part.outcome).collect();
    let failed = held[1].run.id == parts[1].id;
    let expected = [Some(Outcome::Completed), Some(Outcome::Failed)];
    let expected = if failed { expected } else { [expected[1], expected[0]] };
    assert_eq!(outcomes, expected);
    let again = lab.claim_one(node).await;
    assert_eq!(again.run.id, id);
    // A wait for child runs that have all ended ends at once.
    lab.wait(node, &again, Wait::Parts, None).await;
    let again = lab.claim_one(node).await;
    assert_eq!(again.run.id, id);
    assert_eq!((again.attempts, again.lost), (0, 0), "waiting is no attempt");
}

pub async fn who_waits_for_parts_that_end_in_the_same_call_goes_on<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let job = lab.job("job").await;
    let run = lab.started(node, &job).await;
    let parts = parts_of(lab, &run.run, &[]).await;
    assert!(lab.store.split_run(ParentRun::Held(node, run.grant), &parts).await.unwrap());
    let part = lab.claim_one(node).await;
    assert_eq!(part.run.id, parts[0].id);
    let waits = untried(&run, Verdict::Wait(Wait::Parts, None));
    let mut ends = completed(node, &part);
    // A store may write many plain ends at a time.
    for attempt in ends.attempt.iter_mut() {
        attempt.result = AttemptResult::completed();
    }
    let done = [ends, waits];
    let exchanged =
        lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    assert_eq!(exchanged.applied, [Applied::Ended(Outcome::Completed), Applied::Again]);
    assert_eq!(lab.claim_one(node).await.run.id, run.run.id);
}

pub async fn a_new_run_waits_for_its_parts_from_the_beginning<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let job = lab.job("job").await;
    let run = lab.run(&job, lab.ago(60).await);
    let parts = parts_of(lab, &run, &[]).await;
    assert!(lab.store.split_run(ParentRun::New(&run), &parts).await.unwrap());
    assert!(!lab.store.split_run(ParentRun::New(&run), &parts).await.unwrap(), "sent again");
    let held = lab.claim_one(node).await;
    assert_eq!(held.run.id, parts[0].id);
    lab.finish(node, completed(node, &held)).await;
    assert_eq!(lab.store.wake_split(&[held.run.id]).await.unwrap(), 1);
    assert_eq!(lab.claim_one(node).await.run.id, run.id);
}

pub async fn parts_stand_in_nobodys_way<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let mut job = lab.draft("job").await;
    job.definition.overlap = Overlap::Queue;
    lab.create(&job).await;
    let after = lab.job_after("after", &[&job]).await;
    let (run, parts) = split(lab, node, &job, &[]).await;
    let part = lab.claim_one(node).await;
    let dependent = lab.started(node, &after).await;
    lab.wait(node, &dependent, Wait::Upstream, None).await;
    // The next run sees the one that was split before it, and not the part.
    let next = lab.started(node, &job).await;
    let facts = FactsFor { others: true, ..question(&next) };
    let facts = lab.store.facts(node, &[facts]).await.unwrap().remove(0);
    assert_eq!(facts.earlier.iter().map(|earlier| earlier.id).collect::<Vec<_>>(), [run.run.id]);
    // The end of a child run is not the end of its parent: no waiter for the parent is woken.
    lab.finish(node, completed(node, &part)).await;
    assert_eq!(lab.state(dependent.run.id).await, RunState::Pending);
    let facts = FactsFor { upstream: vec![job.id], ..question(&next) };
    let facts = lab.store.facts(node, &[facts]).await.unwrap().remove(0);
    assert_eq!(facts.upstream[0].last, None);
    assert_eq!(lab.store.wake_split(&[parts[0].id]).await.unwrap(), 1);
    let whole = lab.claim_one(node).await;
    assert_eq!(whole.run.id, run.run.id);
    lab.finish(node, completed(node, &whole)).await;
    assert_eq!(lab.state(dependent.run.id).await, RunState::Queued);
}

pub async fn parts_are_forgotten_with_their_run<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let job = lab.job("job").await;
    let (run, parts) = split(lab, node, &job, &[]).await;
    assert_eq!(lab.store.prune_parts(9).await.unwrap(), 0);
    let part = lab.claim_one(node).await;
    lab.finish(node, completed(node, &part)).await;
    lab.store.wake_split(&[parts[0].id]).await.unwrap();
    let whole = lab.claim_one(node).await;
    lab.finish(node, completed(node, &whole)).await;
    assert_eq!(lab.store.prune_parts(9).await.unwrap(), 0, "its history is there");
    let before = lab.now().await + seconds(3_600);
    let cut =
        RetentionCutoff { job: None, before, failed_before: before, keep_last: None, sample: None };
    while lab.store.prune(&cut, 9).await.unwrap() > 0 {}
    assert_eq!(lab.store.run(run.run.id).await.unwrap(), None);
    assert_eq!(lab.store.prune_parts(9).await.unwrap(), 1);
    assert_eq!(lab.store.parts(&[run.run.id]).await.unwrap(), []);
    assert_eq!(lab.store.parts(&[RunId(Uuid::nil())]).await.unwrap(), []);
}

/// As many runs are kept as the job's rule allows, however many child runs each of them has.
pub async fn the_newest_runs_are_kept_with_their_parts<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let mut job = lab.draft("job").await;
    job.definition.retention.keep_last = Some(2);
    lab.create(&job).await;
    let now = lab.now().await;
    let mut wholes = Vec::new();
    for ago in [5, 4, 3, 2, 1] {
        let run = lab.run(&job, now - minutes(ago));
        let parts: Vec<NewRun> =
            (0..3).map(|n| part_again(&run, n, "", None, now - minutes(ago))).collect();
        assert!(lab.store.split_run(ParentRun::New(&run), &parts).await.unwrap());
        for part in lab.claim(node, want(9)).await {
            lab.finish(node, completed(node, &part)).await;
        }
        wholes.push((run.id, parts));
        if ago == 1 {
            // The last one goes on, with parts that have ended.
            break;
        }
        lab.store.wake_split(&[run.id]).await.unwrap();
        let whole = lab.claim_one(node).await;
        lab.finish(node, completed(node, &whole)).await;
    }
    // For each run that is there: how many of its parts are.
    let kept = async || {
        let mut kept = Vec::new();
        for (whole, parts) in &wholes {
            let mut count = 0;
            for part in parts {
                count += usize::from(lab.store.run(part.id).await.unwrap().is_some());
            }
            kept.push((lab.store.run(*whole).await.unwrap().is_some(), count));
        }
        kept
    };
    let before = now - minutes(99);
    let rule = RetentionCutoff {
        job: Some(job.id),
        before,
        failed_before: before,
        keep_last: Some(2),
        sample: None,
    };
    let (all, gone) = ((true, 3), (false, 0));
    // Parts go before their run, and no more at once than asked for.
    assert_eq!(lab.store.prune(&rule, 3).await.unwrap(), 3);
    assert_eq!(kept().await.iter().filter(|it| **it == (true, 0)).count(), 1);
    assert_eq!(lab.store.prune(&rule, 99).await.unwrap(), 5);
    assert_eq!(kept().await, [gone, gone, all, all, all]);
    assert_eq!(lab.store.prune(&rule, 99).await.unwrap(), 0);
    let none = RetentionCutoff { keep_last: Some(0), ..rule };
    assert_eq!(lab.store.prune(&none, 99).await.unwrap(), 8);
    assert_eq!(kept().await, [gone, gone, gone, gone, all]);
}
