//! The leadership, runs that ask for a place, acknowledgements, and nodes that are steered.

use std::sync::Arc;
use std::time::Duration;

use domain::cluster::{Class, Labels, Leadership, NodeRole, NodeState, Placement, Quorum};
use domain::id::{NodeId, TenantId};
use domain::job::Job;
use domain::run::{ClaimedRun, NewRun, Outcome, RunState, Wait};
use jiff::SignedDuration;
use store::{
    Applied, AuditFilter, AuditLog, ClaimFor, ClaimRequest, Cluster, NodeControl,
    NodeControlOutcome, NodeInfo, Prepared, RetentionCutoff, RunQueries, SYSTEM, Settings, Store,
    Verdict,
};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::lab::{Lab, completed, ids, lost, minutes, processes, question, seconds, untried, want};

/// A node with a name, roles and labels.
async fn node<B: Bench>(lab: &Lab<B>, name: &str, roles: &[NodeRole], labels: &str) -> NodeId {
    let node = NodeId(lab.id());
    let info = NodeInfo {
        roles: roles.to_vec(),
        labels: labels.parse().unwrap(),
        ..NodeInfo::named(name)
    };
    lab.store.join(node, &info, minutes(60)).await.unwrap();
    node
}

async fn scheduler<B: Bench>(lab: &Lab<B>, name: &str) -> NodeId {
    node(lab, name, &NodeRole::ALL, "").await
}

/// A stored job of a class.
async fn job_of<B: Bench>(lab: &Lab<B>, name: &str, class: Class, run_on: &str) -> Job {
    let mut job = lab.draft(name).await;
    job.definition.class = class;
    job.definition.run_on = run_on.parse().unwrap();
    lab.create(&job).await;
    job
}

/// A run of a job that became due a minute ago, with the placement request of the job.
async fn due<B: Bench>(lab: &Lab<B>, job: &Job) -> NewRun {
    let run = NewRun { place: job.definition.place(), ..lab.run(job, lab.ago(60).await) };
    lab.submit(std::slice::from_ref(&run)).await;
    run
}

async fn state_of<B: Bench>(lab: &Lab<B>, node: NodeId) -> NodeState {
    let nodes = lab.store.nodes().await.unwrap();
    nodes.iter().find(|found| found.id == node).expect("the node is listed").state
}

async fn placed<B: Bench>(lab: &Lab<B>, node: NodeId, epoch: Option<i64>) -> Vec<ClaimedRun> {
    lab.store.claim_placed(node, epoch, want(10)).await.unwrap()
}

pub async fn one_node_leads_until_it_is_declared_dead<B: Bench>(lab: &Lab<B>) {
    assert_eq!(lab.store.leadership().await.unwrap().node, None);
    let (first, second) = (scheduler(lab, "a").await, scheduler(lab, "b").await);
    let leadership = lab.store.take_leadership(first).await.unwrap();
    assert_eq!(leadership.node, Some(first));
    assert_eq!(lab.store.take_leadership(second).await.unwrap(), leadership);
    assert_eq!(lab.store.take_leadership(first).await.unwrap(), leadership, "it leads already");
    lab.expire(first).await;
    // A lease that ran out is no reason yet: the leader may still renew it.
    assert_eq!(lab.store.take_leadership(second).await.unwrap(), leadership);
    lab.store.reap(9).await.unwrap();
    assert_eq!(
        lab.store.leadership().await.unwrap(),
        Leadership { epoch: leadership.epoch, node: None }
    );
    let next = lab.store.take_leadership(second).await.unwrap();
    assert_eq!(next, Leadership { epoch: leadership.epoch + 1, node: Some(second) });
    assert_eq!(lab.store.take_leadership(first).await.unwrap(), next, "the dead do not lead");
    let nodes = lab.store.nodes().await.unwrap();
    let leads: Vec<_> = nodes.iter().filter_map(|node| Some((node.id, node.leads?))).collect();
    assert_eq!(leads, [(second, next.epoch)]);
}

pub async fn a_leader_that_leaves_makes_room_at_once<B: Bench>(lab: &Lab<B>) {
    let (first, second) = (scheduler(lab, "a").await, scheduler(lab, "b").await);
    let leadership = lab.store.take_leadership(first).await.unwrap();
    lab.store.leave(first, &[]).await.unwrap();
    let next = lab.store.take_leadership(second).await.unwrap();
    assert_eq!(next, Leadership { epoch: leadership.epoch + 1, node: Some(second) });
}

pub async fn only_an_active_scheduler_becomes_the_leader<B: Bench>(lab: &Lab<B>) {
    let agent = node(lab, "agent", &[NodeRole::Agent], "").await;
    assert_eq!(lab.store.take_leadership(agent).await.unwrap().node, None);
    let draining = scheduler(lab, "draining").await;
    lab.store.steer(draining, NodeControl::Drain, SYSTEM).await.unwrap();
    assert_eq!(lab.store.take_leadership(draining).await.unwrap().node, None);
    assert_eq!(lab.store.take_leadership(NodeId(lab.id())).await.unwrap().node, None);
    let planner = node(lab, "planner", &[NodeRole::Scheduler], "").await;
    assert_eq!(lab.store.take_leadership(planner).await.unwrap().node, Some(planner));
}

pub async fn racing_nodes_share_no_epoch<B: Bench>(lab: &Lab<B>) {
    let mut nodes = Vec::new();
    for name in ["a", "b", "c", "d"] {
        nodes.push(scheduler(lab, name).await);
    }
    let mut epochs = Vec::new();
    for _ in 0..3 {
        let mut takes = JoinSet::new();
        for node in nodes.clone() {
            let store = Arc::clone(&lab.store);
            takes.spawn(async move { store.take_leadership(node).await.unwrap() });
        }
        let leads: Vec<Leadership> = takes.join_all().await;
        assert!(leads.iter().all(|leadership| *leadership == leads[0]), "{leads:?}");
        let leader = leads[0].node.unwrap();
        epochs.push(leads[0].epoch);
        lab.store.leave(leader, &[]).await.unwrap();
        nodes.retain(|node| *node != leader);
    }
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
}

pub async fn a_leader_resigns_only_its_own_epoch_and_with_empty_hands<B: Bench>(lab: &Lab<B>) {
    let (leader, other) = (scheduler(lab, "a").await, scheduler(lab, "b").await);
    let epoch = lab.store.take_leadership(leader).await.unwrap().epoch;
    assert!(!lab.store.resign(leader, epoch - 1).await.unwrap());
    assert!(!lab.store.resign(other, epoch).await.unwrap());
    let job = job_of(lab, "only", Class::LeaderOnly, "").await;
    due(lab, &job).await;
    let held = placed(lab, leader, Some(epoch)).await.remove(0);
    assert!(!lab.store.resign(leader, epoch).await.unwrap(), "it holds a run of the leader");
    lab.finish(leader, completed(leader, &held)).await;
    assert!(lab.store.resign(leader, epoch).await.unwrap());
    assert_eq!(lab.store.leadership().await.unwrap(), Leadership { epoch, node: None });
    assert_eq!(lab.store.take_leadership(other).await.unwrap().epoch, epoch + 1);
}

pub async fn plain_claims_leave_placed_runs_alone<B: Bench>(lab: &Lab<B>) {
    let eu = node(lab, "eu", &NodeRole::ALL, "zone=eu,disk=ssd").await;
    let us = node(lab, "us", &NodeRole::ALL, "zone=us").await;
    let job = job_of(lab, "in eu", Class::LocalSafe, "zone=eu").await;
    let plain = lab.due(&lab.job("plain").await).await;
    let run = due(lab, &job).await;
    // Neither by a claim nor by being there when it is submitted.
    let born = NewRun { place: job.definition.place(), ..lab.run(&job, lab.ago(9).await) };
    let claim = Some(ClaimFor { node: eu, max: processes(5) });
    let submitted = lab.store.submit(std::slice::from_ref(&born), claim).await.unwrap();
    assert_eq!((submitted.accepted, submitted.claimed), (vec![true], vec![]));
    assert_eq!(ids(&lab.claim(eu, want(10)).await), [plain.id]);
    assert_eq!(lab.state(run.id).await, RunState::Queued);
    assert_eq!(placed(lab, us, None).await, []);
    let claimed = placed(lab, eu, None).await;
    assert_eq!(ids(&claimed), [run.id, born.id]);
    assert_eq!(claimed[0].run, run);
    assert_eq!(lab.state(run.id).await, RunState::Running);
    assert_eq!(
        lab.finish(eu, completed(eu, &claimed[0])).await,
        Applied::Ended(Outcome::Completed)
    );
}

pub async fn a_placed_run_keeps_its_place_through_all_that_happens<B: Bench>(lab: &Lab<B>) {
    let eu = node(lab, "eu", &NodeRole::ALL, "zone=eu").await;
    let us = node(lab, "us", &NodeRole::ALL, "zone=us").await;
    let job = job_of(lab, "in eu", Class::LocalSafe, "zone=eu").await;
    let run = due(lab, &job).await;
    let nobody_else = async |step: &str| {
        assert_eq!(lab.claim(us, want(10)).await, [], "{step}");
        assert_eq!(lab.claim(eu, want(10)).await, [], "{step}");
        assert_eq!(placed(lab, us, None).await, [], "{step}");
        let mut claimed = placed(lab, eu, None).await;
        assert_eq!(ids(&claimed), [run.id], "{step}");
        claimed.remove(0)
    };
    let held = nobody_else("new").await;
    lab.finish(eu, untried(&held, Verdict::Release)).await;
    let held = nobody_else("released").await;
    lab.finish(eu, crate::lab::retried(eu, &held, seconds(0))).await;
    let held = nobody_else("tried again").await;
    lab.wait(eu, &held, Wait::Overlap, Some(lab.ago(1).await)).await;
    lab.store.reap(9).await.unwrap();
    let held = nobody_else("waited for its turn").await;
    lab.wait(eu, &held, Wait::Upstream, Some(lab.ago(1).await)).await;
    lab.store.reap(9).await.unwrap();
    let held = nobody_else("waited long enough").await;
    lab.expire(eu).await;
    lab.store.reap(9).await.unwrap();
    lab.store.settle_lost(&[lost(eu, &held)]).await.unwrap();
    let again = node(lab, "eu", &NodeRole::ALL, "zone=eu").await;
    assert_eq!(lab.claim(us, want(10)).await, []);
    assert_eq!(ids(&placed(lab, again, None).await), [run.id]);
}

pub async fn placed_runs_are_prepared_and_counted<B: Bench>(lab: &Lab<B>) {
    let node = node(lab, "eu", &NodeRole::ALL, "zone=eu").await;
    let job = job_of(lab, "in eu", Class::LocalSafe, "zone=eu").await;
    let place = job.definition.place();
    let now = lab.now().await;
    let run = |due_at| NewRun { place: place.clone(), ..lab.run(&job, due_at) };
    let runs = [run(now - seconds(3)), run(now - seconds(2)), run(now + minutes(9))];
    let far = run(now + minutes(60));
    lab.submit(&runs).await;
    lab.submit(std::slice::from_ref(&far)).await;
    let want = ClaimRequest { due: processes(1), soon: 5, ahead: minutes(10), tenant_max: None };
    let claimed = lab.store.claim_placed(node, None, want).await.unwrap();
    assert_eq!(ids(&claimed), [runs[0].id, runs[2].id]);
    let counted = ClaimRequest { due: processes(9), soon: 0, tenant_max: Some(2), ..want };
    assert_eq!(lab.store.claim_placed(node, None, counted).await.unwrap(), []);
    let more = ClaimRequest { tenant_max: Some(3), ..counted };
    assert_eq!(ids(&lab.store.claim_placed(node, None, more).await.unwrap()), [runs[1].id]);
}

pub async fn only_the_leader_of_the_present_epoch_gets_its_runs<B: Bench>(lab: &Lab<B>) {
    let (leader, other) = (scheduler(lab, "a").await, scheduler(lab, "b").await);
    let leadership = lab.store.take_leadership(leader).await.unwrap();
    let job = job_of(lab, "only", Class::LeaderOnly, "").await;
    let run = due(lab, &job).await;
    assert_eq!(run.place, Placement::from_class(Class::LeaderOnly, &Labels::default()));
    for (node, epoch) in [
        (other, None),
        (other, Some(leadership.epoch)),
        (leader, None),
        (leader, Some(leadership.epoch - 1)),
        (leader, Some(leadership.epoch + 1)),
    ] {
        assert_eq!(placed(lab, node, epoch).await, [], "{node} {epoch:?}");
    }
    let held = placed(lab, leader, Some(leadership.epoch)).await.remove(0);
    assert_eq!(held.run.id, run.id);
    // The leader misses heartbeats in the middle of it.
    lab.expire(leader).await;
    lab.store.reap(9).await.unwrap();
    let next = lab.store.take_leadership(other).await.unwrap();
    assert_eq!(lab.finish(leader, completed(leader, &held)).await, Applied::Stale);
    assert_eq!(placed(lab, leader, Some(leadership.epoch)).await, []);
    assert_eq!(lab.store.settle_lost(&[lost(leader, &held)]).await.unwrap(), [Applied::Again]);
    let again = placed(lab, other, Some(next.epoch)).await.remove(0);
    assert_eq!((again.run.id, again.lost), (run.id, 1));
    assert!(again.grant.fence > held.grant.fence);
}

pub async fn a_drained_node_is_handed_nothing_that_is_placed<B: Bench>(lab: &Lab<B>) {
    let node = node(lab, "eu", &NodeRole::ALL, "zone=eu").await;
    due(lab, &job_of(lab, "in eu", Class::LocalSafe, "zone=eu").await).await;
    lab.store.steer(node, NodeControl::Drain, SYSTEM).await.unwrap();
    assert_eq!(placed(lab, node, None).await, []);
    lab.store.steer(node, NodeControl::Resume, SYSTEM).await.unwrap();
    assert_eq!(placed(lab, node, None).await.len(), 1);
}

pub async fn a_changed_job_takes_its_runs_along<B: Bench>(lab: &Lab<B>) {
    let node = node(lab, "eu", &NodeRole::ALL, "zone=eu").await;
    let mut job = job_of(lab, "job", Class::LocalSafe, "zone=nowhere").await;
    let run = due(lab, &job).await;
    assert_eq!(placed(lab, node, None).await, []);
    job.definition.run_on = "zone=eu".parse().unwrap();
    lab.update(&mut job, Prepared::Keep).await;
    let held = placed(lab, node, None).await.remove(0);
    // A released run goes back to the lane of its current definition.
    job.definition.run_on = Labels::default();
    lab.update(&mut job, Prepared::Keep).await;
    lab.finish(node, untried(&held, Verdict::Release)).await;
    assert_eq!(placed(lab, node, None).await, []);
    assert_eq!(ids(&lab.claim(node, want(10)).await), [run.id]);
}

pub async fn a_planned_run_has_the_place_of_its_job<B: Bench>(lab: &Lab<B>) {
    let node = node(lab, "eu", &NodeRole::ALL, "zone=eu").await;
    let now = lab.now().await;
    let mut job = lab.draft("job").await;
    job.definition.run_on = "zone=eu".parse().unwrap();
    job.next_run = Some(now - seconds(5));
    lab.create(&job).await;
    let tick = NewRun { place: job.definition.place(), ..lab.tick(&job, now - seconds(5)) };
    let fire = store::RecordPlan {
        job: job.id,
        version: 1,
        expected_next: now - seconds(5),
        new_next: None,
        runs: vec![tick.clone()],
        ledger: Vec::new(),
    };
    assert_eq!(lab.store.fire(&[fire]).await.unwrap(), [true]);
    assert_eq!(lab.claim(node, want(10)).await, []);
    assert_eq!(ids(&placed(lab, node, None).await), [tick.id]);
}

pub async fn a_run_waits_for_a_majority_of_an_epoch<B: Bench>(lab: &Lab<B>) {
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(scheduler(lab, name).await);
    }
    let agent = node(lab, "agent", &[NodeRole::Agent], "").await;
    let job = job_of(lab, "careful", Class::QuorumRequired, "").await;
    due(lab, &job).await;
    let held = lab.claim_one(agent).await;
    let ask = store::FactsFor { quorum: true, ..question(&held) };
    let facts = lab.store.facts(agent, &[question(&held), ask.clone()]).await.unwrap();
    let none = Quorum { led: false, acknowledged: 0, schedulers: 3 };
    assert_eq!((facts[0].quorum, facts[1].quorum), (None, Some(none)));
    lab.wait(agent, &held, Wait::Quorum, Some(lab.now().await + minutes(9))).await;
    let run = held.run.id;
    assert_eq!(lab.state(run).await, RunState::Pending);
    // Without a leader there is no epoch to acknowledge it in.
    assert_eq!(lab.store.acknowledge_runs(nodes[0]).await.unwrap(), 0);
    assert_eq!(lab.store.acknowledgements(run).await.unwrap(), []);
    let epoch = lab.store.take_leadership(nodes[0]).await.unwrap().epoch;
    for _ in 0..2 {
        assert_eq!(lab.store.acknowledge_runs(nodes[1]).await.unwrap(), 0, "one of two");
        assert_eq!(lab.store.acknowledge_runs(agent).await.unwrap(), 0, "it does not plan");
    }
    let some = Quorum { led: true, acknowledged: 1, schedulers: 3 };
    assert_eq!(lab.store.quorum(run).await.unwrap(), some);
    assert_eq!(lab.claim(agent, want(9)).await, []);
    // The leader changes: earlier acknowledgements do not count any more.
    lab.store.leave(nodes[0], &[]).await.unwrap();
    lab.store.take_leadership(nodes[2]).await.unwrap();
    assert_eq!(lab.store.acknowledge_runs(nodes[2]).await.unwrap(), 0);
    assert_eq!(lab.store.acknowledge_runs(nodes[1]).await.unwrap(), 1);
    let again = lab.claim_one(agent).await;
    let ask = store::FactsFor { quorum: true, ..question(&again) };
    let quorum = lab.store.facts(agent, &[ask]).await.unwrap()[0].quorum.unwrap();
    assert!(quorum.is_reached(), "{quorum:?}");
    let record = lab.store.acknowledgements(run).await.unwrap();
    let mut record: Vec<_> = record.iter().map(|it| (it.epoch - epoch, it.node)).collect();
    record.sort_unstable();
    assert_eq!(record, [(0, nodes[1]), (1, nodes[1]), (1, nodes[2])]);
}

pub async fn who_fell_silent_counts_until_it_is_removed<B: Bench>(lab: &Lab<B>) {
    let (alive, dead) = (scheduler(lab, "a").await, scheduler(lab, "b").await);
    lab.store.take_leadership(alive).await.unwrap();
    let job = job_of(lab, "careful", Class::QuorumRequired, "").await;
    due(lab, &job).await;
    let held = lab.claim_one(alive).await;
    lab.wait(alive, &held, Wait::Quorum, None).await;
    lab.expire(dead).await;
    lab.store.reap(9).await.unwrap();
    assert_eq!(state_of(lab, dead).await, NodeState::Down);
    assert_eq!(lab.store.acknowledge_runs(alive).await.unwrap(), 0, "one of two");
    assert_eq!(
        lab.store.steer(dead, NodeControl::Remove, SYSTEM).await.unwrap(),
        NodeControlOutcome::Done
    );
    assert_eq!(state_of(lab, dead).await, NodeState::Gone);
    assert_eq!(lab.store.acknowledge_runs(alive).await.unwrap(), 1, "one of one");
}

pub async fn a_job_that_needs_no_quorum_any_more_does_not_wait_for_one<B: Bench>(lab: &Lab<B>) {
    let node = scheduler(lab, "a").await;
    let mut job = job_of(lab, "careful", Class::QuorumRequired, "").await;
    due(lab, &job).await;
    let held = lab.claim_one(node).await;
    lab.wait(node, &held, Wait::Quorum, None).await;
    assert_eq!(lab.claim(node, want(9)).await, []);
    job.definition.class = Class::LocalSafe;
    lab.update(&mut job, Prepared::Keep).await;
    assert_eq!(lab.claim_one(node).await.run.id, held.run.id);
}

pub async fn a_node_tells_others_how_its_clock_stands<B: Bench>(lab: &Lab<B>) {
    let (one, two) = (scheduler(lab, "one").await, scheduler(lab, "two").await);
    let offsets = async || -> Vec<i128> {
        let nodes = lab.store.nodes().await.unwrap();
        let mut nodes: Vec<_> = nodes.iter().map(|it| (&it.info.name, it.clock_offset)).collect();
        nodes.sort();
        nodes.into_iter().map(|(_, offset)| offset.as_micros()).collect()
    };
    assert_eq!(offsets().await, [0, 0]);
    lab.store.record_clock_offset(two, SignedDuration::from_millis(-1_500)).await.unwrap();
    assert_eq!(offsets().await, [0, -1_500_000]);
    // What a node says replaces what it said before. A dead one says nothing.
    lab.store.record_clock_offset(two, SignedDuration::from_millis(20)).await.unwrap();
    lab.expire(one).await;
    lab.store.reap(9).await.unwrap();
    lab.store.record_clock_offset(one, SignedDuration::from_millis(7)).await.unwrap();
    assert_eq!(offsets().await, [0, 20_000]);
}

pub async fn a_node_is_drained_and_learns_of_it<B: Bench>(lab: &Lab<B>) {
    let node = scheduler(lab, "a").await;
    let draining = async || {
        let renewed = lab.store.renew(node, minutes(60)).await.unwrap();
        renewed.unwrap().draining
    };
    assert!(!draining().await);
    for _ in 0..2 {
        assert_eq!(
            lab.store.steer(node, NodeControl::Drain, SYSTEM).await.unwrap(),
            NodeControlOutcome::Done
        );
    }
    assert!(draining().await);
    assert_eq!(state_of(lab, node).await, NodeState::Draining);
    assert_eq!(
        lab.store.steer(node, NodeControl::Remove, SYSTEM).await.unwrap(),
        NodeControlOutcome::Alive
    );
    assert_eq!(
        lab.store.steer(node, NodeControl::Resume, SYSTEM).await.unwrap(),
        NodeControlOutcome::Done
    );
    assert!(!draining().await);
    assert_eq!(state_of(lab, node).await, NodeState::Active);
    let unknown = NodeId(lab.id());
    assert_eq!(
        lab.store.steer(unknown, NodeControl::Drain, SYSTEM).await.unwrap(),
        NodeControlOutcome::NotFound
    );
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    assert_eq!(
        lab.store.steer(node, NodeControl::Drain, SYSTEM).await.unwrap(),
        NodeControlOutcome::Down
    );
    assert_eq!(
        lab.store.steer(node, NodeControl::Remove, SYSTEM).await.unwrap(),
        NodeControlOutcome::Done
    );
    assert_eq!(
        lab.store.steer(node, NodeControl::Remove, SYSTEM).await.unwrap(),
        NodeControlOutcome::NotFound
    );
    let filter = AuditFilter::of(domain::id::TenantId::CLUSTER);
    let audit = lab.store.audit(&filter, None, 9).await.unwrap();
    let outcomes: Vec<&str> = audit.iter().rev().map(|row| row.event.outcome.as_str()).collect();
    assert_eq!(outcomes, ["DRAINED", "DRAINED", "RESUMED", "REMOVED"]);
    assert!(audit[0].event.details.contains("\"name\":\"a\""), "{}", audit[0].event.details);
}

pub async fn a_node_that_comes_back_is_one_node<B: Bench>(lab: &Lab<B>) {
    let first = scheduler(lab, "a").await;
    lab.store.steer(first, NodeControl::Drain, SYSTEM).await.unwrap();
    lab.expire(first).await;
    lab.store.reap(9).await.unwrap();
    assert_eq!(state_of(lab, first).await, NodeState::Down);
    // It was to take nothing new, and still is.
    let second = scheduler(lab, "a").await;
    assert_eq!(state_of(lab, first).await, NodeState::Gone);
    assert_eq!(state_of(lab, second).await, NodeState::Draining);
    // One that left in good order begins anew.
    lab.store.leave(second, &[]).await.unwrap();
    assert_eq!(state_of(lab, second).await, NodeState::Gone);
    let third = scheduler(lab, "a").await;
    assert_eq!(state_of(lab, third).await, NodeState::Active);
    // It is back before any node missed it.
    let fourth = scheduler(lab, "a").await;
    lab.expire(third).await;
    lab.store.reap(9).await.unwrap();
    assert_eq!(state_of(lab, third).await, NodeState::Gone);
    assert_eq!(state_of(lab, fourth).await, NodeState::Active);
}

pub async fn only_the_leader_says_what_all_should_run_with<B: Bench>(lab: &Lab<B>) {
    let (leader, other) = (scheduler(lab, "a").await, scheduler(lab, "b").await);
    let epoch = lab.store.take_leadership(leader).await.unwrap().epoch;
    let publish = async |node, epoch, policy: &str| {
        lab.store.publish_policy(node, epoch, policy).await.unwrap()
    };
    assert_eq!(publish(other, epoch, "x").await, None);
    assert_eq!(publish(leader, epoch - 1, "x").await, None);
    assert_eq!(lab.store.settings().await.unwrap(), []);
    assert_eq!(publish(leader, epoch, "one").await, Some(1));
    assert_eq!(publish(leader, epoch, "one").await, Some(1), "it is no news");
    assert_eq!(publish(leader, epoch, "two").await, Some(2));
    lab.store.leave(leader, &[]).await.unwrap();
    assert_eq!(publish(leader, epoch, "three").await, None, "it leads no more");
    let settings = lab.store.settings().await.unwrap();
    let settings: Vec<_> =
        settings.iter().map(|it| (it.name.as_str(), it.value.as_str())).collect();
    assert_eq!(settings, [(store::POLICY, "two")]);
}

pub async fn a_run_that_waits_for_its_place_makes_nobody_late<B: Bench>(lab: &Lab<B>) {
    due(lab, &job_of(lab, "nowhere", Class::LocalSafe, "zone=nowhere").await).await;
    let counts = async || {
        let counts = lab.store.counts().await.unwrap().live;
        assert_eq!(counts, lab.store.live(TenantId::DEFAULT).await.unwrap());
        (counts.queued, counts.oldest_due)
    };
    assert_eq!(counts().await, (1, None));
    let plain = lab.due(&lab.job("plain").await).await;
    assert_eq!(counts().await, (2, Some(plain.due_at)));
}

pub async fn schedulers_are_those_that_take_part<B: Bench>(lab: &Lab<B>) {
    let schedulers = async || {
        let mut schedulers = lab.store.schedulers().await.unwrap();
        schedulers.sort();
        schedulers
    };
    assert_eq!(schedulers().await, []);
    let (a, b) = (scheduler(lab, "a").await, scheduler(lab, "b").await);
    let c = node(lab, "c", &[NodeRole::Scheduler], "").await;
    node(lab, "agent", &[NodeRole::Agent], "").await;
    assert_eq!(schedulers().await, [a, b, c]);
    lab.store.steer(a, NodeControl::Drain, SYSTEM).await.unwrap();
    assert_eq!(schedulers().await, [b, c]);
    lab.store.steer(a, NodeControl::Resume, SYSTEM).await.unwrap();
    lab.store.leave(b, &[]).await.unwrap();
    lab.expire(c).await;
    assert_eq!(schedulers().await, [a, c], "it is not declared dead yet");
    lab.store.reap(9).await.unwrap();
    assert_eq!(schedulers().await, [a]);
}

pub async fn a_place_can_be_asked_for_again_after_its_runs_are_gone<B: Bench>(lab: &Lab<B>) {
    let here = node(lab, "here", &NodeRole::ALL, "zone=eu").await;
    let job = job_of(lab, "job", Class::LocalSafe, "zone=eu").await;
    let other = job_of(lab, "other", Class::LeaderOnly, "").await;
    let waits = due(lab, &other).await;
    let far = lab.now().await + minutes(60);
    let all = RetentionCutoff {
        job: None,
        before: far,
        failed_before: far,
        keep_last: None,
        sample: None,
    };
    for _ in 0..2 {
        let run = due(lab, &job).await;
        // Placements that are still needed stay, whatever is pruned.
        assert_eq!(lab.store.prune(&all, 99).await.unwrap(), 0);
        let held = placed(lab, here, None).await;
        assert_eq!(ids(&held), [run.id]);
        assert_eq!(held[0].run.place, job.definition.place());
        lab.finish(here, completed(here, &held[0])).await;
        assert_eq!(lab.store.prune(&all, 99).await.unwrap(), 1);
        assert_eq!(lab.store.prune(&all, 99).await.unwrap(), 0);
    }
    let leadership = lab.store.take_leadership(here).await.unwrap();
    let held = placed(lab, here, Some(leadership.epoch)).await;
    assert_eq!(ids(&held), [waits.id]);
    assert!(held[0].run.place.is_leader());
}

/// A run with a placement request is hinted at to every handle, and a plain run is not taken for
/// one.
pub async fn who_waits_for_placed_runs_hears_of_them<B: Bench>(lab: &Lab<B>) {
    let (job, other) = (lab.job("job").await, lab.bench.handle().await);
    let due_at = lab.ago(60).await;
    for (handle, mut first) in [(&lab.store, true), (&other, false)] {
        let mut hint = std::pin::pin!(handle.placed());
        // Hints may be missing, so their cause is repeated.
        let told = async {
            loop {
                let mut run = lab.run(&job, due_at);
                lab.submit(std::slice::from_ref(&run)).await;
                if first {
                    first = false;
                    let heard = tokio::time::timeout(Duration::from_millis(50), hint.as_mut());
                    assert!(heard.await.is_err(), "nobody asked for a place");
                }
                run = lab.run(&job, due_at);
                run.place = Placement::from_words(vec!["zone=eu".to_owned()]);
                lab.submit(std::slice::from_ref(&run)).await;
                let heard = tokio::time::timeout(Duration::from_millis(100), hint.as_mut());
                if heard.await.is_ok() {
                    return;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), told).await.expect("nobody heard of it");
    }
}
