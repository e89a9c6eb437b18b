//! Settings of the cluster: a change names the version it is based on.

use domain::id::TenantId;
use domain::run::Wait;
use store::{ClaimRequest, LiveCounts, RunQueries, SYSTEM, Set, Settings, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{Lab, minutes, tenant, untried, want};

pub async fn a_setting_changes_for_who_has_seen_it<B: Bench>(lab: &Lab<B>) {
    let set = async |name: &str, value: Option<&str>, expected| {
        lab.store.set(name, value, expected, SYSTEM).await.unwrap()
    };
    assert_eq!(lab.store.settings().await.unwrap(), []);
    assert_eq!(set("b", Some("1"), 3).await, Set::Conflict(0));
    assert_eq!(set("b", Some("{}"), 0).await, Set::Done(1));
    assert_eq!(set("b", Some("[]"), 0).await, Set::Conflict(1));
    assert_eq!(set("b", Some("[]"), 1).await, Set::Done(2));
    assert_eq!(set("b", Some("{}"), 1).await, Set::Conflict(2));
    assert_eq!(set("a", Some("\"\u{2714}\""), 0).await, Set::Done(1));
    let settings = lab.store.settings().await.unwrap();
    let seen: Vec<_> =
        settings.iter().map(|it| (it.name.as_str(), it.value.as_str(), it.version)).collect();
    assert_eq!(seen, [("a", "\"\u{2714}\"", 1), ("b", "[]", 2)]);
    assert!(settings[0].changed_at <= lab.now().await);
    assert_eq!(set("b", None, 1).await, Set::Conflict(2));
    assert_eq!(set("b", None, 0).await, Set::Conflict(2));
    assert_eq!(set("b", None, 2).await, Set::Done(0));
    assert_eq!(set("b", None, 2).await, Set::Conflict(0));
    assert_eq!(set("b", None, 0).await, Set::Done(0));
    assert_eq!(lab.store.settings().await.unwrap().len(), 1);
}

pub async fn racing_changes_of_a_setting_win_once<B: Bench>(lab: &Lab<B>) {
    let handle = lab.bench.handle().await;
    for expected in 0..5 {
        let (first, second) = tokio::join!(
            lab.store.set("it", Some("1"), expected, SYSTEM),
            handle.set("it", Some("2"), expected, SYSTEM)
        );
        let mut answers = [first.unwrap(), second.unwrap()];
        answers.sort_by_key(|answer| matches!(answer, Set::Conflict(_)));
        assert_eq!(answers, [Set::Done(expected + 1), Set::Conflict(expected + 1)]);
    }
}

pub async fn live_runs_of_a_tenant_are_counted<B: Bench>(lab: &Lab<B>) {
    let (node, job, now) = (lab.node().await, lab.job("job").await, lab.now().await);
    let mut elsewhere = lab.draft("elsewhere").await;
    elsewhere.tenant = tenant(9);
    lab.create(&elsewhere).await;
    let runs: Vec<_> = (0..3).map(|n| lab.run(&job, now - minutes(60 - n))).collect();
    lab.submit(&runs).await;
    let held = lab.claim(node, want(2)).await;
    let wait = untried(&held[0], Verdict::Wait(Wait::Upstream, None));
    lab.store.complete_and_claim(node, &[wait], ClaimRequest::default()).await.unwrap();
    lab.submit(&[lab.run(&job, now + minutes(5)), lab.run(&elsewhere, now)]).await;
    let oldest_due = Some(runs[2].due_at);
    let expected = LiveCounts { pending: 2, queued: 1, running: 1, oldest_due };
    assert_eq!(lab.store.live(TenantId::DEFAULT).await.unwrap(), expected);
    assert_eq!(lab.store.live(tenant(9)).await.unwrap().queued, 1);
    assert_eq!(lab.store.live(tenant(8)).await.unwrap(), LiveCounts::default());
}
