//! Alerts: raised with the end that causes them, delivered once to each channel.

use domain::alert::{Alert, AlertKind};
use domain::id::NodeId;
use domain::job::Job;
use domain::run::{LedgerEntry, Outcome, ReasonCode};
use store::{Alerts, Delivery, Finish, Fire, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{Lab, completed, ended, minutes, reason, seconds, skipped, stop};

async fn undelivered<B: Bench>(lab: &Lab<B>, channel: &str) -> Vec<(Alert, u32)> {
    lab.store.undelivered(channel, 99).await.unwrap()
}

async fn alert<B: Bench>(lab: &Lab<B>, job: &Job, past: i64) -> Alert {
    let at = lab.ago(past).await;
    let run = Some(lab.run(job, at).id);
    let text = format!("it happened {past} seconds ago");
    Alert { kind: AlertKind::LateStart, tenant: job.tenant, job: job.id, run, text, at }
}

/// A run fails for the last time and waits for somebody to look at it.
async fn dies<B: Bench>(lab: &Lab<B>, node: NodeId, job: &Job, past: i64) -> Finish {
    let run = lab.run(job, lab.ago(past).await);
    lab.submit(&[run]).await;
    let claimed = lab.claim_one(node).await;
    let mut finish = ended(node, &claimed, Outcome::Failed);
    let why = reason(ReasonCode::RetriesExhausted, "attempt 4 of 4");
    finish.verdict =
        Verdict::End { outcome: Outcome::Failed, reason: Some(why), dead_letter: true };
    lab.finish(node, finish.clone()).await;
    finish
}

pub async fn an_alert_is_recorded_once<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let (older, newer) = (alert(lab, &job, 60).await, alert(lab, &job, 30).await);
    lab.store.raise(&[newer.clone(), older.clone()]).await.unwrap();
    lab.store.raise(std::slice::from_ref(&older)).await.unwrap();
    assert_eq!(undelivered(lab, "log").await, [(older.clone(), 0), (newer, 0)]);
    assert_eq!(lab.store.undelivered("log", 1).await.unwrap(), [(older, 0)]);
    assert_eq!(lab.store.undelivered("log", 0).await.unwrap(), []);
}

pub async fn a_channel_gets_an_alert_until_it_arrived<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let alert = alert(lab, &job, 60).await;
    lab.store.raise(std::slice::from_ref(&alert)).await.unwrap();
    let failed = |again| Delivery::Failed { error: "refused\0".into(), again_in: again };
    for tries in 1..3 {
        let again = failed(Some(seconds(-1)));
        lab.store.record_delivery("hook", alert.id(), &again).await.unwrap();
        assert_eq!(undelivered(lab, "hook").await, [(alert.clone(), tries)]);
    }
    let later = failed(Some(minutes(5)));
    lab.store.record_delivery("hook", alert.id(), &later).await.unwrap();
    assert_eq!(undelivered(lab, "hook").await, []);
    lab.store.record_delivery("log", alert.id(), &Delivery::Done).await.unwrap();
    assert_eq!(undelivered(lab, "log").await, []);
    lab.store.record_delivery("mail", alert.id(), &failed(None)).await.unwrap();
    assert_eq!(undelivered(lab, "mail").await, []);
    assert_eq!(undelivered(lab, "other").await, [(alert, 0)]);
}

pub async fn old_alerts_are_no_news<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let old = alert(lab, &job, 25 * 3_600).await;
    let new = alert(lab, &job, 23 * 3_600).await;
    lab.store.raise(&[old, new.clone()]).await.unwrap();
    assert_eq!(undelivered(lab, "log").await, [(new, 0)]);
}

pub async fn a_dead_letter_raises_an_alert<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let finish = dies(lab, node, &job, 60).await;
    lab.finish(node, finish.clone()).await;
    let raised = undelivered(lab, "log").await;
    assert_eq!(raised.len(), 1);
    let (alert, tries) = &raised[0];
    assert_eq!((alert.kind, *tries), (AlertKind::MaxRetriesExceeded, 0));
    assert_eq!((alert.tenant, alert.job), (job.tenant, job.id));
    assert_eq!(alert.run, Some(finish.grant.run));
    assert_eq!(alert.text, "FAILED RETRIES_EXHAUSTED: attempt 4 of 4");
    assert_eq!(alert.at, finish.attempt.unwrap().finished_at);
}

pub async fn a_missed_time_raises_an_alert<B: Bench>(lab: &Lab<B>) {
    let (node, first) = (lab.node().await, lab.ago(60).await);
    let mut job = lab.draft("job").await;
    job.next_run = Some(first);
    lab.create(&job).await;
    let tick = |outcome, at| LedgerEntry {
        id: domain::id::RunId::of_tick(job.id, at, ""),
        job: job.id,
        tenant: job.tenant,
        job_version: 1,
        first: at,
        last: at,
        count: 1,
        outcome,
        reason: reason(ReasonCode::StartDeadline, "too late"),
    };
    let missed = tick(Outcome::Missed, first);
    let fire = Fire {
        job: job.id,
        version: 1,
        expected_next: first,
        new_next: None,
        runs: Vec::new(),
        ledger: vec![missed.clone(), tick(Outcome::Skipped, first + seconds(1))],
    };
    lab.store.fire(&[fire]).await.unwrap();
    let claimed = lab.started(node, &job).await;
    lab.finish(node, skipped(&claimed, Outcome::Missed)).await;
    let raised = undelivered(lab, "log").await;
    let mut runs: Vec<_> = raised.iter().map(|(alert, _)| alert.run.unwrap()).collect();
    runs.sort();
    let mut expected = [missed.id, claimed.run.id];
    expected.sort();
    assert_eq!(runs, expected);
    assert!(raised.iter().all(|(alert, _)| alert.kind == AlertKind::Missed));
}

pub async fn ordinary_ends_raise_none<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    for outcome in Outcome::ALL.into_iter().filter(|outcome| *outcome != Outcome::Missed) {
        let claimed = lab.started(node, &job).await;
        lab.finish(node, ended(node, &claimed, outcome)).await;
    }
    // What somebody cancelled needs nobody's attention.
    let claimed = lab.started(node, &job).await;
    lab.store.cancel(claimed.run.id, &stop()).await.unwrap();
    let mut finish = ended(node, &claimed, Outcome::Failed);
    finish.verdict = Verdict::End { outcome: Outcome::Failed, reason: None, dead_letter: true };
    lab.finish(node, finish).await;
    assert_eq!(undelivered(lab, "log").await, []);
}

/// A job has recovered when its latest run completed after it had failed for good; it is told
/// once.
pub async fn a_recovery_is_told_once<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (job, other) = (lab.job("job").await, lab.job("other").await);
    dies(lab, node, &job, 90).await;
    let last = dies(lab, node, &job, 80).await;
    dies(lab, node, &other, 70).await;
    assert_eq!(lab.store.recovered().await.unwrap(), []);
    let claimed = lab.started(node, &job).await;
    lab.finish(node, completed(node, &claimed)).await;
    let recovered = lab.store.recovered().await.unwrap();
    assert_eq!(recovered.len(), 1);
    assert_eq!((recovered[0].job, recovered[0].run), (job.id, Some(last.grant.run)));
    assert_eq!(lab.store.recovered().await.unwrap(), []);
}
