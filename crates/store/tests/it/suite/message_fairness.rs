//! Which messages a lease gets first: workspaces take turns, weights, urgency, limits.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::NodeId;
use jiff::SignedDuration;
use store::{Applied, LeaseRequest, LeasedMessage, Messages};

use super::message::{depth, done, draft, lease, queue, request, retried, send, send_of, settle};
use crate::bench::Bench;
use crate::lab::{Lab, seconds};

fn workspaces(leased: &[LeasedMessage]) -> Vec<&str> {
    leased.iter().map(|message| message.workspace.as_str()).collect()
}

pub async fn workspaces_take_turns<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    send_of(lab, &queue, &["a"; 20]).await;
    send_of(lab, &queue, &["b", "c", "b"]).await;
    assert_eq!(workspaces(&lease(lab, &queue, 4).await), ["a", "b", "c", "a"]);
    // The next lease goes on behind the workspace that was served last.
    assert_eq!(workspaces(&lease(lab, &queue, 1).await), ["b"]);
    assert_eq!(workspaces(&lease(lab, &queue, 1).await), ["a"]);
    send_of(lab, &queue, &["z", "0"]).await;
    assert_eq!(workspaces(&lease(lab, &queue, 3).await), ["z", "0", "a"]);
    assert_eq!(workspaces(&lease(lab, &queue, 3).await), ["a"; 3]);
}

pub async fn a_weight_is_so_many_messages_of_a_round<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    send_of(lab, &queue, &["a", "a", "a", "a", "a", "b", "b", "b"]).await;
    let weights = vec![("a".to_owned(), 2)];
    let request = LeaseRequest { weights, ..request(&queue, NodeId(lab.id()), 6) };
    let leased = lab.store.lease_messages(&request).await.unwrap().messages;
    assert_eq!(workspaces(&leased), ["a", "a", "b", "a", "a", "b"]);
}

pub async fn a_weight_holds_across_leases<B: Bench>(lab: &Lab<B>) {
    for (max, name) in [(1, "one"), (2, "two"), (3, "three"), (5, "five")] {
        let queue = queue(lab, name).await;
        send_of(lab, &queue, &["a"; 9]).await;
        send_of(lab, &queue, &["b"; 4]).await;
        let weights = vec![("a".to_owned(), 3)];
        let request = LeaseRequest { weights, ..request(&queue, NodeId(lab.id()), max) };
        let mut order = String::new();
        while order.len() < 13 {
            let leased = lab.store.lease_messages(&request).await.unwrap().messages;
            assert!(!leased.is_empty(), "{order}");
            order.push_str(&workspaces(&leased).concat());
        }
        assert_eq!(order, "aaabaaabaaabb", "{max} at a time");
        // A turn of a workspace without messages is over.
        send_of(lab, &queue, &["a", "c"]).await;
        let next = lab.store.lease_messages(&LeaseRequest { max: 2, ..request }).await.unwrap();
        assert_eq!(workspaces(&next.messages), ["c", "a"]);
    }
}

pub async fn urgent_messages_of_a_workspace_go_first<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let mut messages = Vec::new();
    for priority in [1, 9, 5, 9] {
        let mut message = draft(lab, &queue, "a").await;
        message.run.priority = priority;
        messages.push(message);
    }
    let ids = send(lab, &queue, &messages).await;
    let leased: Vec<_> =
        lease(lab, &queue, 4).await.iter().map(|it| (it.id, it.priority)).collect();
    assert_eq!(leased, [(ids[1], 9), (ids[3], 9), (ids[2], 5), (ids[0], 1)]);
}

pub async fn limits_of_a_queue_hold<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    send_of(lab, &queue, &["a", "a", "a", "b", "b", "c"]).await;
    let usual = request(&queue, NodeId(lab.id()), 10);
    let of_workspace = LeaseRequest { workspace_concurrency: Some(1), ..usual.clone() };
    let first = lab.store.lease_messages(&of_workspace).await.unwrap().messages;
    assert_eq!(workspaces(&first), ["a", "b", "c"]);
    assert_eq!(lab.store.lease_messages(&of_workspace).await.unwrap().messages, []);
    let of_queue = LeaseRequest { concurrency: Some(4), ..usual.clone() };
    assert_eq!(lab.store.lease_messages(&of_queue).await.unwrap().messages.len(), 1);
    assert_eq!(lab.store.lease_messages(&of_queue).await.unwrap().messages, []);
    settle(lab, &[done(&queue, &first[0])]).await;
    assert_eq!(lab.store.lease_messages(&of_queue).await.unwrap().messages.len(), 1);
    let slow = LeaseRequest { rate_per_second: Some(0.01), ..usual };
    assert_eq!(lab.store.lease_messages(&slow).await.unwrap().messages.len(), 1);
    send_of(lab, &queue, &["d"]).await;
    let leased = lab.store.lease_messages(&slow).await.unwrap();
    assert_eq!(leased.messages, []);
    let wait = leased.next_at.unwrap().duration_since(lab.now().await);
    assert!(wait > seconds(50) && wait <= seconds(101), "{wait}");
}

/// Numbers that look random, the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Whatever is sent and leased: no workspace is served twice before each other one that had a ready
/// message all the time was served once, limits hold, and nothing is leased twice.
pub async fn no_workspace_waits_longer_than_a_round<B: Bench>(lab: &Lab<B>) {
    let test = testbed::this_test!("no_workspace_waits_longer_than_a_round");
    for seed in test.seeds(&[7], 1) {
        let queue = queue(lab, &format!("mail {}", seed.value)).await;
        let (mut numbers, most) = (Numbers(seed.value), 3_u64);
        let mut ready: BTreeMap<String, u64> = BTreeMap::new();
        let mut leased: BTreeMap<String, Vec<LeasedMessage>> = BTreeMap::new();
        // How often each other workspace was served since a workspace was, while this one waited.
        let mut passed: BTreeMap<String, BTreeMap<String, u32>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for _ in 0..60 {
            match numbers.below(5) {
                0 | 1 => {
                    // Mostly one workspace floods the others.
                    let count = 1 + numbers.below(12);
                    let drawn: Vec<String> = (0..count)
                        .map(|_| match numbers.below(3) {
                            0 => format!("w{}", numbers.below(9)),
                            _ => "flood".to_owned(),
                        })
                        .collect();
                    let names: Vec<&str> = drawn.iter().map(String::as_str).collect();
                    send_of(lab, &queue, &names).await;
                    for name in drawn {
                        *ready.entry(name).or_default() += 1;
                    }
                }
                2 | 3 => {
                    let max = 1 + numbers.below(8) as u32;
                    let workspace_concurrency = Some(most as u32);
                    let usual = request(&queue, NodeId(lab.id()), max);
                    let request = LeaseRequest { workspace_concurrency, ..usual };
                    let got = lab.store.lease_messages(&request).await.unwrap().messages;
                    let may = |name: &str, leased: &BTreeMap<String, Vec<LeasedMessage>>| {
                        (leased.get(name).map_or(0, Vec::len) as u64) < most
                    };
                    let waiting: Vec<String> = ready
                        .iter()
                        .filter(|(name, count)| **count > 0 && may(name, &leased))
                        .map(|(name, _)| name.clone())
                        .collect();
                    assert!(got.len() >= waiting.len().min(max as usize), "{got:?} {waiting:?}");
                    for message in got {
                        assert!(seen.insert((message.id, message.fence)));
                        let name = message.workspace.clone();
                        for other in waiting.iter().filter(|other| **other != name) {
                            let still = ready.get(other).is_some_and(|count| *count > 0);
                            if still && may(other, &leased) {
                                let times = passed.entry(other.clone()).or_default();
                                let times = times.entry(name.clone()).or_default();
                                *times += 1;
                                assert!(*times <= 2, "{other} waits while {name} is served again");
                            }
                        }
                        passed.remove(&name);
                        *ready.get_mut(&name).expect("it was sent") -= 1;
                        leased.entry(name.clone()).or_default().push(message);
                        assert!(leased[&name].len() as u64 <= most, "{name} has too many");
                    }
                }
                _ => {
                    for messages in leased.values_mut() {
                        let Some(message) = messages.pop() else { continue };
                        if numbers.below(3) == 0 {
                            let again = retried(&queue, &message, SignedDuration::ZERO);
                            assert_eq!(settle(lab, &[again]).await, [Applied::Again]);
                            *ready.entry(message.workspace).or_default() += 1;
                        } else {
                            settle(lab, &[done(&queue, &message)]).await;
                        }
                    }
                }
            }
        }
        let count = ready.values().sum::<u64>();
        let held = leased.values().map(Vec::len).sum::<usize>() as u64;
        assert_eq!(depth(lab, &queue).await, [count, 0, held, 0], "nothing is lost");
    }
}
