//! Nodes: leases, leaving, and the runs of a node that missed heartbeats.

use domain::cluster::{NodeRole, NodeState};
use domain::id::NodeId;
use domain::run::{ClaimedRun, Grant, Outcome, RunState};
use domain::slot::PerSlot;
use jiff::{SignedDuration, Timestamp};
use store::{Applied, ClaimFor, ClaimRequest, Cluster, Finish, NodeInfo, Replaces, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ids, ids_of, lost, minutes, processes, question, read_back, retried, seconds,
    untried, want, want_soon,
};

pub async fn a_lease_goes_on_while_it_is_renewed<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let before = lab.now().await;
    let renewed = lab.store.renew(node, minutes(1)).await.unwrap().unwrap();
    assert!(renewed.now >= before);
    assert_eq!(renewed.cancel, []);
    assert_eq!(lab.store.reap(9).await.unwrap().dead, []);
    assert!(lab.store.renew(node, minutes(1)).await.unwrap().is_some());
    assert_eq!(lab.store.renew(NodeId(lab.id()), minutes(1)).await.unwrap(), None);
}

/// A lease that has ended cannot be renewed, and nothing begins under it.
pub async fn a_late_renewal_is_refused<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    assert!(lab.store.facts(node, &[question(&claimed)]).await.unwrap()[0].held);
    lab.expire(node).await;
    assert_eq!(lab.store.renew(node, minutes(1)).await.unwrap(), None);
    assert!(!lab.store.facts(node, &[question(&claimed)]).await.unwrap()[0].held);
    assert_eq!(lab.store.reap(9).await.unwrap().dead, [node]);
    assert_eq!(lab.store.renew(node, minutes(1)).await.unwrap(), None);
}

/// A recorded start is reported when the node is lost, under the same claim only.
pub async fn a_start_that_was_written_down_is_known<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let begun = lab.started(node, &job).await;
    let again = lab.started(node, &job).await;
    let unbegun = lab.started(node, &job).await;
    let told = lab.store.begin(node, &[begun.grant, again.grant]).await.unwrap();
    assert_eq!(told, [true, true]);
    assert_eq!(lab.store.begin(other, &[unbegun.grant]).await.unwrap(), [false]);
    let stale = Grant { turn: 7, ..unbegun.grant };
    assert_eq!(lab.store.begin(node, &[stale]).await.unwrap(), [false]);
    lab.finish(node, retried(node, &again, seconds(-1))).await;
    let again = lab.claim_one(node).await;
    lab.expire(node).await;
    let reaped = lab.store.reap(9).await.unwrap();
    let is_begun = |run: &ClaimedRun| {
        let lost = reaped.lost.iter().find(|lost| lost.run.grant == run.grant).unwrap();
        lost.is_begun
    };
    assert_eq!([&begun, &again, &unbegun].map(is_begun), [true, false, false]);
    assert_eq!(lab.store.begin(node, &[begun.grant]).await.unwrap(), [false], "it is dead");
}

/// Tokens grow with every claim and with every look, whichever node asks.
pub async fn tokens_grow_with_every_start<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let mut last = 0;
    for node in [node, other, node] {
        let claimed = lab.started(node, &job).await;
        assert!(claimed.token > last, "{} after {last}", claimed.token);
        let facts = lab.store.facts(node, &[question(&claimed)]).await.unwrap();
        assert!(facts[0].token > claimed.token);
        last = facts[0].token;
    }
    let drawn = lab.store.start_tokens(3).await.unwrap();
    assert_eq!(drawn.len(), 3);
    assert!(drawn[0] > last && drawn.is_sorted_by(|one, next| one < next), "{drawn:?}");
    let soon = lab.run(&job, lab.now().await + minutes(1));
    lab.submit(std::slice::from_ref(&soon)).await;
    assert_eq!(lab.claim(node, want_soon(1)).await[0].token, 0, "it is decided when it is due");
}

/// The time without a scheduler is recorded by the first one that joins after it.
pub async fn a_time_without_a_scheduler_is_recorded<B: Bench>(lab: &Lab<B>) {
    let join = async |name: &str, roles: &[NodeRole], replaces: Replaces| {
        let node = NodeId(lab.id());
        let roles = roles.to_vec();
        let info = NodeInfo { roles, replaces, ..NodeInfo::named(name) };
        (node, lab.store.join(node, &info, minutes(1)).await.unwrap().outages)
    };
    let both = [NodeRole::Scheduler, NodeRole::Agent];
    let (first, outages) = join("a", &both, Replaces::None).await;
    assert_eq!(outages, [], "nothing was there before");
    let (second, outages) = join("b", &both, Replaces::None).await;
    assert_eq!(outages, [], "another one is alive");
    lab.store.leave(first, &[]).await.unwrap();
    let before = lab.now().await;
    lab.store.retire(second).await.unwrap();
    let retired = lab.now().await;
    // It waits for its runs, and renews its lease meanwhile.
    assert!(lab.store.renew(second, minutes(1)).await.unwrap().is_some());
    lab.store.retire(second).await.unwrap();
    lab.store.leave(second, &[]).await.unwrap();
    if lab.now().await == before {
        // A clock that stands still has no outages; the engine's tests turn it.
        return;
    }
    let (agent, outages) = join("agent", &[NodeRole::Agent], Replaces::None).await;
    assert_eq!(outages, [], "an agent does not plan");
    let (third, outages) = join("c", &both, Replaces::None).await;
    let [outage] = outages[..] else { panic!("{outages:?}") };
    assert!(before <= outage.since && outage.since <= retired, "{outage:?}");
    assert!(outage.until <= lab.now().await);
    // Its process is known to have ended, though its lease has not.
    let replaces = Replaces::Node { node: third, begun: None };
    let (fourth, outages) = join("c", &both, replaces).await;
    assert_eq!(outages.len(), 2, "{outages:?}");
    assert_eq!(lab.store.renew(third, minutes(1)).await.unwrap(), None);
    let (_, outages) = join("c", &both, Replaces::EveryScheduler).await;
    assert_eq!(outages.len(), 3, "{outages:?}");
    assert_eq!(lab.store.renew(fourth, minutes(1)).await.unwrap(), None);
    assert!(lab.store.renew(agent, minutes(1)).await.unwrap().is_some(), "agents keep theirs");
}

/// A node that decided about starts was alive then, though it was killed before its next renewal.
pub async fn an_outage_begins_when_a_node_last_acted<B: Bench>(lab: &Lab<B>) {
    let join = async |name: &str, acted: Option<(NodeId, Timestamp)>| {
        let node = NodeId(lab.id());
        let replaces = acted.map_or(Replaces::None, |_| Replaces::EveryScheduler);
        let info = NodeInfo { replaces, acted, ..NodeInfo::named(name) };
        (node, lab.store.join(node, &info, minutes(1)).await.unwrap().outages)
    };
    let later = async || {
        let before = lab.now().await;
        let mut now = before;
        for _ in 0..100_000 {
            if now > before + SignedDuration::from_millis(1) {
                break;
            }
            now = lab.now().await;
        }
        now
    };
    let (first, _) = join("a", None).await;
    let (second, _) = join("b", None).await;
    let before = lab.now().await;
    let acted = later().await;
    if acted == before {
        // A clock that stands still has no outages; the engine's tests turn it.
        return;
    }
    let (acted_later, joined) = (later().await, later().await);
    let (third, outages) = join("a", Some((first, acted))).await;
    let [outage] = outages[..] else { panic!("{outages:?}") };
    assert_eq!(outage.since, acted);
    assert!(outage.until >= joined);
    // The other one knows a later moment. The outage is recorded by now, and a repeated join
    // changes nothing.
    for _ in 0..2 {
        let info = NodeInfo { acted: Some((second, acted_later)), ..NodeInfo::named("b") };
        let outages = lab.store.join(third, &info, minutes(1)).await.unwrap().outages;
        assert_eq!(outages.last().unwrap().since, acted_later, "{outages:?}");
        assert_eq!(outages.last().unwrap().until, outage.until, "{outages:?}");
    }
    // A moment before the last renewal moves nothing, and one that is still to come means now.
    let nodes = lab.store.nodes().await.unwrap();
    let renewed_at = |id| nodes.iter().find(|node| node.id == id).unwrap().renewed_at;
    assert_eq!((renewed_at(first), renewed_at(second)), (acted, acted_later));
    let (_, outages) = join("c", Some((third, before))).await;
    assert_eq!(outages[0].since, renewed_at(third));
    join("d", Some((third, lab.now().await + minutes(9)))).await;
    let (nodes, now) = (lab.store.nodes().await.unwrap(), lab.now().await);
    assert!(nodes.iter().all(|node| node.renewed_at <= now), "{nodes:?}");
}

/// The start log of the process before is in force with the join, whichever node reaps first.
pub async fn a_join_releases_what_the_process_before_had_not_begun<B: Bench>(lab: &Lab<B>) {
    let (old, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let begun = lab.started(old, &job).await;
    let prepared = lab.started(old, &job).await;
    let replaces = Replaces::Node { node: old, begun: Some(vec![begun.grant]) };
    let info = NodeInfo { replaces, ..NodeInfo::named("again") };
    let new = NodeId(lab.id());
    lab.store.join(new, &info, minutes(1)).await.unwrap();
    let claimed = lab.claim_one(other).await;
    assert_eq!((claimed.run.id, claimed.lost), (prepared.run.id, 0), "it had not begun");
    let lost = lab.store.reap(9).await.unwrap().lost;
    assert_eq!(lost.iter().map(|lost| lost.run.grant).collect::<Vec<_>>(), [begun.grant]);
    assert_eq!(lab.finish(old, completed(old, &begun)).await, Applied::Stale);
    assert_eq!(lab.finish(old, completed(old, &prepared)).await, Applied::Stale);
    // The same join again, as after a lost answer, changes nothing.
    lab.store.join(new, &info, minutes(1)).await.unwrap();
    assert_eq!(
        lab.finish(other, completed(other, &claimed)).await,
        Applied::Ended(Outcome::Completed)
    );
}

/// A node that leaves releases the runs that it had not begun. A begun run without a recorded end
/// is a lost attempt, and not a run that was never attempted.
pub async fn a_node_that_leaves_keeps_what_it_had_begun<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let begun = lab.started(node, &job).await;
    let prepared = lab.started(node, &job).await;
    lab.store.leave(node, &[begun.grant]).await.unwrap();
    assert_eq!(lab.claim_one(other).await.run.id, prepared.run.id);
    assert_eq!(lab.finish(node, completed(node, &begun)).await, Applied::Stale);
    let lost = lab.store.reap(9).await.unwrap().lost;
    assert_eq!(lost.iter().map(|lost| lost.run.grant).collect::<Vec<_>>(), [begun.grant]);
    let released = Finish::untried(begun.grant, Verdict::Release);
    lab.store.settle_lost(&[(node, released)]).await.unwrap();
    assert_eq!(lab.claim_one(other).await.run.id, begun.run.id);
    assert_eq!(lab.store.reap(9).await.unwrap().lost, []);
}

/// Runs of schedulers that all stopped together are not lost before the start logs show which runs
/// had begun.
pub async fn after_an_outage_reapers_wait_for_start_logs<B: Bench>(lab: &Lab<B>) {
    let (one, two, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let before = lab.now().await;
    let held = lab.started(two, &job).await;
    for node in [one, two] {
        assert!(lab.store.renew(node, SignedDuration::from_micros(500)).await.unwrap().is_some());
    }
    let join = async |name: &str, replaces: Replaces| {
        let node = NodeId(lab.id());
        let info = NodeInfo { replaces, ..NodeInfo::named(name) };
        (node, lab.store.join(node, &info, minutes(1)).await.unwrap().outages)
    };
    if lab.now().await == before {
        // A clock that stands still has no outages; the engine's tests turn it.
        return;
    }
    let ended = lab.now().await + SignedDuration::from_millis(1);
    while lab.now().await < ended {}
    let (first, outages) = join("one", Replaces::Node { node: one, begun: Some(vec![]) }).await;
    assert_eq!(outages.len(), 1, "{outages:?}");
    let reaped = lab.store.reap(9).await.unwrap();
    assert_eq!((reaped.dead, reaped.lost), (vec![], vec![]));
    // Nothing runs on a node whose lease has ended.
    let other = lab.started(first, &job).await;
    let facts = lab.store.facts(first, &[question(&other)]).await.unwrap();
    assert_eq!(facts[0].elsewhere, []);
    let (_, outages) = join("two", Replaces::Node { node: two, begun: Some(vec![]) }).await;
    assert_eq!(outages.len(), 1, "{outages:?}");
    assert_eq!(lab.store.reap(9).await.unwrap().lost, []);
    assert_eq!(lab.claim_one(first).await.run.id, held.run.id);
}

pub async fn a_dead_node_can_write_nothing<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    lab.due(&job).await;
    lab.expire(node).await;
    let reaped = lab.store.reap(9).await.unwrap();
    assert_eq!(reaped.dead, [node]);
    assert_eq!(lab.store.reap(9).await.unwrap().dead, [], "a node is declared dead once");
    assert_eq!(lab.store.renew(node, minutes(1)).await.unwrap(), None);
    let done = [completed(node, &claimed), retried(node, &claimed, seconds(0))];
    let exchanged = lab.store.complete_and_claim(node, &done, want(9)).await.unwrap();
    assert_eq!(exchanged.applied, [Applied::Stale; 2]);
    assert_eq!(exchanged.claimed, []);
    let facts = lab.store.facts(node, &[question(&claimed)]).await.unwrap();
    assert!(!facts[0].held);
    // It cannot talk itself back to life while its runs are open.
    lab.store.join(node, &NodeInfo::named("again"), minutes(1)).await.unwrap();
    assert_eq!(lab.finish(node, completed(node, &claimed)).await, Applied::Stale);
}

pub async fn runs_of_a_dead_node_are_listed_until_they_are_settled<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..3).map(|n| lab.run(&job, due_at + seconds(n))).collect();
    lab.submit(&runs).await;
    let mut held = lab.claim(node, want(9)).await;
    lab.expire(node).await;
    let mut listed = lab.store.reap(9).await.unwrap().lost;
    assert!(listed.iter().all(|lost| lost.node == node && !lost.is_begun));
    listed.sort_by_key(|lost| lost.run.grant.run);
    held.sort_by_key(|claimed| claimed.grant.run);
    let expected: Vec<_> = held.iter().map(read_back).collect();
    assert_eq!(listed.into_iter().map(|lost| lost.run).collect::<Vec<_>>(), expected);
    assert_eq!(lab.store.reap(2).await.unwrap().lost.len(), 2, "no more than asked for");
    let (_, mut last) = lost(node, &held[1]);
    last.verdict = Verdict::End { outcome: Outcome::Failed, reason: None, dead_letter: true };
    // The third was prepared and never begun.
    let untouched = untried(&held[2], Verdict::Release);
    let settled = [lost(node, &held[0]), (node, last), (node, untouched)];
    let applied = lab.store.settle_lost(&settled).await.unwrap();
    let expected = [Applied::Again, Applied::Ended(Outcome::Failed), Applied::Again];
    assert_eq!(applied, expected);
    assert_eq!(lab.store.reap(9).await.unwrap().lost, []);
    let ended = lab.view(held[1].run.id).await;
    assert_eq!((ended.state, ended.attempts, ended.lost), (RunState::Ended(Outcome::Failed), 0, 1));
    assert!(ended.dead_letter);
    let mut again = lab.claim(lab.node().await, want(9)).await;
    again.sort_by_key(|claimed| claimed.grant.run);
    assert_eq!(ids(&again), [held[0].run.id, held[2].run.id]);
    assert_eq!((again[0].attempts, again[0].lost), (0, 1));
    assert_eq!((again[1].attempts, again[1].lost), (0, 0));
    for (again, before) in again.iter().zip([&held[0], &held[2]]) {
        assert!(again.grant.fence > before.grant.fence && again.grant.turn > before.grant.turn);
    }
}

/// Two reapers settle the same loss: one of them does.
pub async fn a_loss_is_settled_once<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    let settled = [lost(node, &claimed)];
    let handle = lab.bench.handle().await;
    let (first, second) =
        tokio::join!(lab.store.settle_lost(&settled), handle.settle_lost(&settled));
    let mut answers = [first.unwrap(), second.unwrap()].concat();
    answers.sort_by_key(|applied| *applied == Applied::Stale);
    assert_eq!(answers, [Applied::Again, Applied::Stale]);
    let again = lab.claim_one(lab.node().await).await;
    assert_eq!((again.attempts, again.lost), (0, 1));
    assert_eq!(lab.store.attempts(again.run.id).await.unwrap().len(), 1);
}

/// A loss that ends the run answers the same when it is sent again.
pub async fn a_loss_that_is_settled_again_answers_the_same<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    let (_, mut finish) = lost(node, &claimed);
    finish.verdict = Verdict::End { outcome: Outcome::Failed, reason: None, dead_letter: true };
    for _ in 0..2 {
        let applied = lab.store.settle_lost(&[(node, finish.clone())]).await.unwrap();
        assert_eq!(applied, [Applied::Ended(Outcome::Failed)]);
    }
}

pub async fn only_runs_of_dead_nodes_can_be_settled_as_lost<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    let applied = lab.store.settle_lost(&[lost(node, &claimed)]).await.unwrap();
    assert_eq!(applied, [Applied::Stale]);
    // A lease that has ended does not declare the node dead: its results are still accepted.
    lab.expire(node).await;
    assert_eq!(lab.store.settle_lost(&[lost(node, &claimed)]).await.unwrap(), [Applied::Stale]);
    let applied = lab.finish(node, completed(node, &claimed)).await;
    assert_eq!(applied, Applied::Ended(Outcome::Completed));
}

pub async fn several_nodes_fall_silent_at_once<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let healthy = lab.node().await;
    let kept = lab.started(healthy, &job).await;
    let mut expected = Vec::new();
    for _ in 0..3 {
        let node = lab.node().await;
        let claimed = lab.started(node, &job).await;
        lab.expire(node).await;
        expected.push((node, claimed));
    }
    let idle = lab.node().await;
    lab.expire(idle).await;
    let mut reaped = lab.store.reap(9).await.unwrap();
    reaped.dead.sort();
    let mut dead: Vec<_> = expected.iter().map(|(node, _)| *node).chain([idle]).collect();
    dead.sort();
    assert_eq!(reaped.dead, dead);
    reaped.lost.sort_by_key(|lost| lost.node);
    expected.sort_by_key(|(node, _)| *node);
    let found: Vec<_> = reaped.lost.iter().map(|lost| (lost.node, lost.run.clone())).collect();
    assert_eq!(
        found,
        expected.iter().map(|(node, run)| (*node, read_back(run))).collect::<Vec<_>>()
    );
    let settled: Vec<(NodeId, Finish)> =
        expected.iter().map(|(node, claimed)| lost(*node, claimed)).collect();
    assert_eq!(lab.store.settle_lost(&settled).await.unwrap(), [Applied::Again; 3]);
    assert_eq!(lab.claim(healthy, want(9)).await.len(), 3);
    assert_eq!(lab.view(kept.run.id).await.node, Some(healthy));
}

/// The list comes in portions; a loop of reap and settle comes to its end.
pub async fn losses_are_settled_in_portions<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..25).map(|_| lab.run(&job, due_at)).collect();
    lab.submit(&runs).await;
    assert_eq!(lab.claim(node, want(99)).await.len(), 25);
    lab.expire(node).await;
    let mut rounds = 0;
    loop {
        let reaped = lab.store.reap(10).await.unwrap();
        if reaped.lost.is_empty() {
            break;
        }
        rounds += 1;
        let settled: Vec<_> = reaped.lost.iter().map(|it| lost(it.node, &it.run)).collect();
        let applied = lab.store.settle_lost(&settled).await.unwrap();
        assert_eq!(applied, vec![Applied::Again; settled.len()]);
    }
    assert_eq!(rounds, 3);
    let mut again = ids(&lab.claim(lab.node().await, want(99)).await);
    again.sort();
    let mut expected = ids_of(&runs);
    expected.sort();
    assert_eq!(again, expected);
}

pub async fn a_node_that_leaves_returns_its_runs_untouched<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let due = lab.due(&job).await;
    let soon = lab.run(&job, lab.now().await + minutes(10));
    lab.submit(std::slice::from_ref(&soon)).await;
    let held = lab.claim(node, ClaimRequest { due: processes(9), ..want_soon(9) }).await;
    assert_eq!(held.len(), 2);
    let kept = lab.started(other, &job).await;
    lab.store.leave(node, &[]).await.unwrap();
    assert_eq!(lab.store.renew(node, minutes(1)).await.unwrap(), None);
    assert_eq!(lab.claim(node, want(9)).await, []);
    assert_eq!(lab.finish(node, completed(node, &held[0])).await, Applied::Stale);
    let reaped = lab.store.reap(9).await.unwrap();
    assert_eq!((reaped.dead, reaped.lost), (vec![], vec![]), "leaving is no loss");
    let again = lab.claim(other, ClaimRequest { due: processes(9), ..want_soon(9) }).await;
    assert_eq!(ids(&again), [due.id, soon.id]);
    for (again, before) in again.iter().zip(&held) {
        assert_eq!(again.run, before.run);
        assert_eq!((again.attempts, again.lost), (0, 0));
        assert!(again.grant.fence > before.grant.fence && again.grant.turn > before.grant.turn);
    }
    assert_eq!(lab.view(kept.run.id).await.node, Some(other));
    assert_eq!(lab.store.attempts(due.id).await.unwrap(), []);
    // Leaving twice, and leaving without having been there, is nothing.
    lab.store.leave(node, &[]).await.unwrap();
    lab.store.leave(NodeId(lab.id()), &[]).await.unwrap();
}

/// A node whose reply was lost can read its claims.
pub async fn a_node_can_ask_what_it_holds<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    assert_eq!(lab.store.held(node).await.unwrap(), []);
    let soon = lab.run(&job, lab.now().await + minutes(10));
    lab.submit(std::slice::from_ref(&soon)).await;
    let born = Some(ClaimFor { node, max: processes(1) });
    let born = lab.store.submit(&[lab.run(&job, lab.ago(60).await)], born).await.unwrap().claimed;
    let mut expected = [born, lab.claim(node, want_soon(1)).await].concat();
    let done = lab.started(node, &job).await;
    lab.finish(node, completed(node, &done)).await;
    let retrying = lab.started(node, &job).await;
    lab.finish(node, retried(node, &retrying, seconds(0))).await;
    expected.extend(lab.claim(node, want(9)).await);
    let others = lab.started(other, &job).await;
    let by_run = |mut held: Vec<ClaimedRun>| {
        held.sort_by_key(|held| held.grant.run);
        held
    };
    let held = lab.store.held(node).await.unwrap();
    assert_eq!(by_run(held), by_run(expected.iter().map(read_back).collect()));
    assert_eq!(lab.store.held(other).await.unwrap(), [read_back(&others)]);
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    assert_eq!(lab.store.held(node).await.unwrap(), []);
    lab.store.leave(other, &[]).await.unwrap();
    assert_eq!(lab.store.held(other).await.unwrap(), []);
    assert_eq!(lab.store.held(NodeId(lab.id())).await.unwrap(), []);
}

pub async fn nodes_are_listed_with_what_they_say_and_hold<B: Bench>(lab: &Lab<B>) {
    assert_eq!(lab.store.nodes().await.unwrap(), []);
    let (node, before) = (NodeId(lab.id()), lab.now().await);
    let info = NodeInfo {
        name: "left".into(),
        address: Some("10.0.0.1:8630".into()),
        version: "1.2.3".into(),
        roles: vec![NodeRole::Agent],
        labels: "zone=eu,disk=ssd".parse().unwrap(),
        capacity: PerSlot { process: 7, http: 70 },
        settings_hash: "abc".into(),
        replaces: Replaces::None,
        acted: None,
    };
    lab.store.join(node, &info, minutes(60)).await.unwrap();
    let job = lab.job("job").await;
    let done = lab.started(node, &job).await;
    lab.finish(node, completed(node, &done)).await;
    lab.started(node, &job).await;
    lab.started(node, &job).await;
    let other = lab.node().await;
    let mut listed = lab.store.nodes().await.unwrap();
    listed.sort_by_key(|listed| listed.id != node);
    assert_eq!(listed.iter().map(|node| node.id).collect::<Vec<_>>(), [node, other]);
    assert_eq!((&listed[0].info, listed[0].held, listed[0].state), (&info, 2, NodeState::Active));
    assert!(listed[0].joined_at >= before && listed[0].renewed_at >= listed[0].joined_at);
    assert!(listed[0].lease_until > listed[0].renewed_at);
    assert_eq!((listed[1].info.name.as_str(), listed[1].held), ("node", 0));
    lab.store.renew(node, minutes(90)).await.unwrap();
    let again = lab.store.nodes().await.unwrap();
    let again = again.iter().find(|again| again.id == node).unwrap();
    assert_eq!(again.joined_at, listed[0].joined_at);
    assert!(again.renewed_at >= listed[0].renewed_at);
    lab.expire(node).await;
    lab.store.reap(9).await.unwrap();
    lab.store.leave(other, &[]).await.unwrap();
    let left = lab.store.nodes().await.unwrap();
    let left: Vec<_> = left.iter().map(|left| (left.id, left.state, left.held)).collect();
    assert_eq!(left, [(node, NodeState::Down, 2), (other, NodeState::Gone, 0)]);
}
