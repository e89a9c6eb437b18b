//! The order of claims: fair between tenants, then by priority with ageing, then by time.

use std::sync::Arc;

use domain::id::TenantId;
use domain::job::Job;
use domain::run::NewRun;
use jiff::Timestamp;
use store::{ClaimRequest, Store};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::lab::{Lab, completed, ids, ids_of, minutes, seconds, tenant, want};

fn of<B: Bench>(lab: &Lab<B>, job: &Job, tenant: TenantId, due_at: Timestamp) -> NewRun {
    NewRun { tenant, ..lab.run(job, due_at) }
}

/// A tenant with a thousand waiting runs does not delay another tenant's only one.
pub async fn a_crowd_does_not_delay_another_tenant<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let mut runs: Vec<_> = (0..1_000)
        .map(|n| NewRun { priority: 9, ..of(lab, &job, tenant(1), now - minutes(60) + seconds(n)) })
        .collect();
    let single = NewRun { priority: 0, ..of(lab, &job, tenant(2), now - seconds(1)) };
    runs.push(single.clone());
    lab.submit(&runs).await;
    let claimed = lab.claim(node, want(2)).await;
    assert_eq!(claimed.len(), 2);
    assert!(ids(&claimed).contains(&single.id), "each tenant gets one of two places");
    assert!(ids(&claimed).contains(&runs[0].id));
}

pub async fn tenants_take_turns<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let old: Vec<_> = (0..4).map(|n| of(lab, &job, tenant(1), now - minutes(9 - n))).collect();
    let new: Vec<_> = (0..2).map(|n| of(lab, &job, tenant(2), now - minutes(2 - n))).collect();
    lab.submit(&[old.clone(), new.clone()].concat()).await;
    let expected = [&old[0], &new[0], &old[1], &new[1], &old[2], &old[3]].map(|run| run.id);
    assert_eq!(ids(&lab.claim(node, want(6)).await), expected);
}

/// A tenant that holds many runs comes after one that holds few, on whichever node they are held.
pub async fn what_a_tenant_holds_counts<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let first: Vec<_> = (0..6).map(|n| of(lab, &job, tenant(1), now - minutes(60 - n))).collect();
    lab.submit(&first).await;
    assert_eq!(lab.claim(other, want(3)).await.len(), 3);
    let second: Vec<_> = (0..4).map(|n| of(lab, &job, tenant(2), now - minutes(5 - n))).collect();
    lab.submit(&second).await;
    let claimed = lab.claim(node, want(3)).await;
    assert_eq!(ids(&claimed), ids_of(&second[..3]));
    // Both hold three now: turns again, the longer waiting first.
    assert_eq!(ids(&lab.claim(node, want(2)).await), [first[3].id, second[3].id]);
    // Three ends later, the second tenant holds less than the first.
    let done: Vec<_> = claimed.iter().map(|claimed| completed(node, claimed)).collect();
    lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    let late = of(lab, &job, tenant(2), now - seconds(1));
    lab.submit(std::slice::from_ref(&late)).await;
    assert_eq!(ids(&lab.claim(node, want(1)).await), [late.id]);
}

pub async fn priority_goes_first<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(10).await;
    let runs: Vec<_> =
        (0..10).map(|priority| NewRun { priority, ..lab.run(&job, due_at) }).collect();
    lab.submit(&runs).await;
    let mut expected = ids_of(&runs);
    expected.reverse();
    assert_eq!(ids(&lab.claim(node, want(10)).await), expected);
}

/// A point of priority is worth a minute of waiting.
pub async fn waiting_makes_up_for_priority<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(10).await;
    let urgent = NewRun { priority: 9, ..lab.run(&job, due_at) };
    let old = NewRun { priority: 0, ..lab.run(&job, due_at - minutes(9) - seconds(1)) };
    let newer = NewRun { priority: 0, ..lab.run(&job, due_at - minutes(9) + seconds(1)) };
    lab.submit(&[newer.clone(), urgent.clone(), old.clone()]).await;
    assert_eq!(ids(&lab.claim(node, want(3)).await), [old.id, urgent.id, newer.id]);
}

pub async fn among_equals_the_longest_due_goes_first<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let runs: Vec<_> = [30, 10, 40, 20].map(|n| lab.run(&job, now - seconds(n))).into();
    lab.submit(&runs).await;
    let expected = [runs[2].id, runs[0].id, runs[3].id, runs[1].id];
    assert_eq!(ids(&lab.claim(node, want(4)).await), expected);
}

pub async fn a_tenant_holds_no_more_than_it_may<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    let crowd: Vec<_> = (0..6).map(|n| of(lab, &job, tenant(1), now - minutes(9 - n))).collect();
    let single = of(lab, &job, tenant(2), now - seconds(1));
    lab.submit(&crowd).await;
    lab.submit(std::slice::from_ref(&single)).await;
    let limited = ClaimRequest { tenant_max: Some(2), ..want(10) };
    let claimed = lab.claim(node, limited).await;
    assert_eq!(ids(&claimed), [crowd[0].id, single.id, crowd[1].id]);
    assert_eq!(lab.claim(other, limited).await, [], "the limit holds for all nodes together");
    // An end frees a slot for one.
    let exchanged =
        lab.store.complete_and_claim(node, &[completed(node, &claimed[0])], limited).await.unwrap();
    assert_eq!(ids(&exchanged.claimed), [crowd[2].id]);
}

pub async fn racing_nodes_keep_a_tenants_limit<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..60).map(|_| lab.run(&job, due_at)).collect();
    lab.submit(&runs).await;
    let handles = [lab.bench.handle().await, lab.bench.handle().await];
    let mut tasks = JoinSet::new();
    for n in 0..12 {
        let store = Arc::clone(&handles[n % 2]);
        let node = lab.node_behind(&store).await;
        let limited = ClaimRequest { tenant_max: Some(7), ..want(3) };
        tasks.spawn(async move {
            store.complete_and_claim(node, &[], limited).await.unwrap().claimed.len()
        });
    }
    assert_eq!(tasks.join_all().await.into_iter().sum::<usize>(), 7);
}
