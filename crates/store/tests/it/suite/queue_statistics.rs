//! Counts of a queue's messages by workspace, and how fast they come and go.

use domain::id::NodeId;
use store::{Messages, QueueDepth, QueueStatistics};

use super::message::{done, lease, queue, send_of};
use crate::bench::Bench;
use crate::lab::Lab;

pub async fn messages_are_counted_by_workspace<B: Bench>(lab: &Lab<B>) {
    let (jobs, other) = (queue(lab, "jobs").await, queue(lab, "other").await);
    send_of(lab, &jobs, &["b", "b", "b", "a", "c", "c"]).await;
    send_of(lab, &other, &["a"]).await;
    // One of each workspace.
    assert_eq!(lease(lab, &jobs, 3).await.len(), 3);
    let counted = lab.store.workspace_depths(jobs.id, 10).await.unwrap();
    assert!(!counted.is_cut);
    let seen: Vec<(&str, u64, u64, bool)> = counted
        .workspaces
        .iter()
        .map(|(name, depth)| {
            (name.as_str(), depth.ready, depth.leased, depth.oldest_ready.is_some())
        })
        .collect();
    assert_eq!(seen, [("b", 2, 1, true), ("c", 1, 1, true), ("a", 0, 1, false)]);
    let depth = &counted.workspaces[0].1;
    assert_eq!((depth.delayed, depth.blocked), (0, 0));
    let two = lab.store.workspace_depths(jobs.id, 2).await.unwrap();
    assert_eq!(two.workspaces.len(), 2);
    let none = lab.store.workspace_depths(queue(lab, "empty").await.id, 2).await.unwrap();
    assert_eq!(none.workspaces, Vec::<(String, QueueDepth)>::new());
}

pub async fn rates_are_those_of_the_last_minute<B: Bench>(lab: &Lab<B>) {
    let jobs = queue(lab, "jobs").await;
    let none = lab.store.queue_rates(jobs.id).await.unwrap();
    assert_eq!((none.sent, none.ended), (0.0, 0.0));
    send_of(lab, &jobs, &["a"; 6]).await;
    send_of(lab, &queue(lab, "other").await, &["a"; 5]).await;
    let leased = lease(lab, &jobs, 3).await;
    let ends: Vec<_> = leased.iter().map(|it| done(&jobs, it)).collect();
    lab.store.settle_messages(NodeId(lab.id()), &ends).await.unwrap();
    let rates = lab.store.queue_rates(jobs.id).await.unwrap();
    assert_eq!((rates.sent * 60.0, rates.ended * 60.0), (6.0, 3.0));
}
