//! Dead letters: they are listed and counted until they are settled.

use domain::alert::AlertKind;
use domain::id::RunId;
use domain::run::{Outcome, RunState};
use store::{Alerts, Channel, DeadLetters, RunFilter, RunsOf, Store};

use super::list_runs::dead;
use crate::bench::Bench;
use crate::lab::{Lab, completed, tenant};

async fn listed<B: Bench>(lab: &Lab<B>, filter: &RunFilter) -> Vec<RunId> {
    let page = lab.store.list_runs(filter, None, 99).await.unwrap();
    assert_eq!(page.next, None);
    page.items.iter().map(|run| run.id).collect()
}

pub async fn dead_letters_are_listed_until_they_are_acknowledged<B: Bench>(lab: &Lab<B>) {
    let (node, job, other) = (lab.node().await, lab.job("job").await, lab.job("other").await);
    let done = lab.started(node, &job).await;
    lab.finish(node, completed(node, &done)).await;
    let (first, second) = (dead(lab, node, &job).await, dead(lab, node, &other).await);
    lab.due(&job).await;
    let all = RunFilter::dead_letters(job.tenant);
    let mut expected = vec![first, second];
    expected.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    assert_eq!(listed(lab, &all).await, expected);
    let of_job = RunsOf::DeadLetters { tenant: job.tenant, job: Some(job.id) };
    assert_eq!(listed(lab, &RunFilter::new(of_job)).await, [first]);
    let timeouts = vec![RunState::Ended(Outcome::Timeout)];
    assert_eq!(listed(lab, &RunFilter { states: timeouts, ..all.clone() }).await, []);
    assert_eq!(listed(lab, &RunFilter::dead_letters(tenant(9))).await, []);
    let asked = [second, done.run.id, RunId(lab.id()), second];
    assert_eq!(lab.store.acknowledge(&asked).await.unwrap(), [true, false, false, false]);
    assert_eq!(listed(lab, &all).await, [first]);
    let seen_to = lab.view(second).await;
    assert_eq!((seen_to.state, seen_to.dead_letter), (RunState::Ended(Outcome::Failed), false));
    assert_eq!(lab.store.acknowledge(&[]).await.unwrap(), [] as [bool; 0]);
}

pub async fn dead_letters_are_counted_up_to_a_number<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let count = async |most| lab.store.count_dead_letters(job.tenant, most).await.unwrap();
    assert_eq!(count(9).await, 0);
    for _ in 0..3 {
        dead(lab, node, &job).await;
    }
    assert_eq!((count(9).await, count(3).await, count(2).await), (3, 3, 2));
    assert_eq!(lab.store.count_dead_letters(tenant(9), 9).await.unwrap(), 0);
}

/// The alert is raised for the first dead letter of a tenant, and not again until there were none.
pub async fn waiting_dead_letters_raise_one_alert<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let mut elsewhere = lab.draft("elsewhere").await;
    elsewhere.tenant = tenant(9);
    lab.create(&elsewhere).await;
    let raise = async || lab.store.raise_dead_letters().await.unwrap();
    assert_eq!(raise().await, 0);
    let mut letters = vec![dead(lab, node, &job).await, dead(lab, node, &job).await];
    dead(lab, node, &elsewhere).await;
    assert_eq!((raise().await, raise().await), (2, 0));
    let alerts = lab.store.undelivered(&Channel::of_all("log"), 99).await.unwrap();
    let alerts = alerts.iter().map(|(alert, _)| alert);
    let told = alerts.filter(|alert| alert.kind == AlertKind::DeadLetters);
    let mut words: Vec<_> = told.map(|alert| (alert.tenant, alert.text.as_str())).collect();
    words.sort();
    let expected = [
        (job.tenant, "2 runs wait among the dead letters"),
        (tenant(9), "1 run waits among the dead letters"),
    ];
    assert_eq!(words, expected);
    letters.push(dead(lab, node, &job).await);
    assert_eq!(raise().await, 0, "they were told");
    lab.store.acknowledge(&letters).await.unwrap();
    assert_eq!(raise().await, 0);
    dead(lab, node, &job).await;
    assert_eq!((raise().await, raise().await), (1, 0));
}

pub async fn racing_nodes_raise_one_alert<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    dead(lab, node, &job).await;
    let handle = lab.bench.handle().await;
    let (first, second) = tokio::join!(lab.store.raise_dead_letters(), handle.raise_dead_letters());
    assert_eq!(first.unwrap() + second.unwrap(), 1);
}
