//! Alerts: raised with the end that causes them, delivered once to each channel.

use domain::alert::{Alert, AlertKind};
use domain::id::{NodeId, ObjectId};
use domain::job::Job;
use domain::object::{Object, ObjectKind};
use domain::run::{LedgerEntry, Outcome, Reason, ReasonCode};
use store::{
    Alerts, Channel, Delivery, Finish, NamedResources, RecordPlan, SYSTEM, Store, Verdict,
};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{Lab, completed, ended, minutes, reason, seconds, skipped, stop, tenant, untried};

async fn undelivered<B: Bench>(lab: &Lab<B>, channel: &str) -> Vec<(Alert, u32)> {
    lab.store.undelivered(&Channel::of_all(channel), 99).await.unwrap()
}

async fn alert<B: Bench>(lab: &Lab<B>, job: &Job, past: i64) -> Alert {
    let at = lab.ago(past).await;
    let run = Some(lab.run(job, at).id);
    let text = format!("it happened {past} seconds ago");
    Alert { kind: AlertKind::LateStart, tenant: job.tenant, job: job.id, run, text, at }
}

/// A run fails for the last time and becomes a dead letter.
async fn dies<B: Bench>(lab: &Lab<B>, node: NodeId, job: &Job, past: i64) -> Finish {
    let why = reason(ReasonCode::RetriesExhausted, "attempt 4 of 4");
    dies_of(lab, node, job, past, why).await
}

/// The same for another reason.
async fn dies_of<B: Bench>(
    lab: &Lab<B>,
    node: NodeId,
    job: &Job,
    past: i64,
    why: Reason,
) -> Finish {
    let run = lab.run(job, lab.ago(past).await);
    lab.submit(&[run]).await;
    let claimed = lab.claim_one(node).await;
    let mut finish = ended(node, &claimed, Outcome::Failed);
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
    assert_eq!(lab.store.undelivered(&Channel::of_all("log"), 1).await.unwrap(), [(older, 0)]);
    assert_eq!(lab.store.undelivered(&Channel::of_all("log"), 0).await.unwrap(), []);
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

pub async fn a_failure_without_retries_raises_its_own_alert<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    for (n, code) in [ReasonCode::NotRetryable, ReasonCode::Lost, ReasonCode::PartsFailed]
        .into_iter()
        .enumerate()
    {
        let job = lab.job(&format!("job {n}")).await;
        let finish = dies_of(lab, node, &job, 60, reason(code, "it is final")).await;
        let raised = undelivered(lab, "log").await;
        let alert = raised.iter().find(|(alert, _)| alert.job == job.id);
        let (alert, _) = alert.unwrap();
        assert_eq!((alert.kind, alert.run), (AlertKind::FinalFailure, Some(finish.grant.run)));
        // It is open until the job completes.
        assert_eq!(lab.store.recovered().await.unwrap(), []);
        let run = lab.run(&job, lab.ago(30).await);
        lab.submit(&[run]).await;
        let claimed = lab.claim_one(node).await;
        lab.finish(node, ended(node, &claimed, Outcome::Completed)).await;
        let recovered = lab.store.recovered().await.unwrap();
        assert_eq!(recovered.iter().map(|alert| alert.run).collect::<Vec<_>>(), [alert.run]);
    }
}

pub async fn a_skip_for_upstream_jobs_raises_an_alert<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let mut skipped_runs = Vec::new();
    for code in [ReasonCode::UpstreamFailed, ReasonCode::UpstreamNotReady, ReasonCode::Overlap] {
        let claimed = lab.started(node, &job).await;
        let reason = Some(reason(code, "job extract did not end in time"));
        let verdict = Verdict::End { outcome: Outcome::Skipped, reason, dead_letter: false };
        lab.finish(node, untried(&claimed, verdict)).await;
        skipped_runs.push(Some(claimed.run.id));
    }
    let raised = undelivered(lab, "log").await;
    let mut told: Vec<_> = raised.iter().map(|(alert, _)| (alert.kind, alert.run)).collect();
    told.sort_by_key(|(_, run)| *run);
    let mut expected: Vec<_> =
        skipped_runs[..2].iter().map(|run| (AlertKind::UpstreamSkip, *run)).collect();
    expected.sort_by_key(|(_, run)| *run);
    assert_eq!(told, expected);
    assert!(raised.iter().all(|(alert, _)| alert.text.contains("SKIPPED UPSTREAM_")));
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
    let fire = RecordPlan {
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
    // A cancelled run raises no alert.
    let claimed = lab.started(node, &job).await;
    lab.store.cancel(claimed.run.id, &stop(), SYSTEM).await.unwrap();
    let mut finish = ended(node, &claimed, Outcome::Failed);
    finish.verdict = Verdict::End { outcome: Outcome::Failed, reason: None, dead_letter: true };
    lab.finish(node, finish).await;
    assert_eq!(undelivered(lab, "log").await, []);
}

/// A job has recovered when its latest run completed after it had failed for good; the alert is
/// raised once.
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

pub async fn a_channel_gets_what_it_asked_for<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let mut elsewhere = lab.draft("elsewhere").await;
    elsewhere.tenant = tenant(9);
    lab.create(&elsewhere).await;
    let late = alert(lab, &job, 60).await;
    let missed = Alert { kind: AlertKind::Missed, ..alert(lab, &job, 50).await };
    let foreign = alert(lab, &elsewhere, 40).await;
    lab.store.raise(&[late.clone(), missed.clone(), foreign.clone()]).await.unwrap();
    let all = Channel::of_all("all");
    let wants = async |channel: Channel| {
        let found = lab.store.undelivered(&channel, 99).await.unwrap();
        found.into_iter().map(|(alert, _)| alert.id()).collect::<Vec<_>>()
    };
    let [late, missed, foreign] = [late.id(), missed.id(), foreign.id()];
    assert_eq!(wants(all.clone()).await, [late, missed, foreign]);
    let ours = Channel { tenant: Some(job.tenant), ..all.clone() };
    assert_eq!(wants(ours.clone()).await, [late, missed]);
    let kinds = vec![AlertKind::Missed, AlertKind::Recovered];
    assert_eq!(wants(Channel { kinds: kinds.clone(), ..ours }).await, [missed]);
    assert!(wants(Channel { tenant: Some(tenant(9)), kinds, ..all.clone() }).await.is_empty());
    let since = lab.ago(45).await;
    assert_eq!(wants(Channel { since, ..all }).await, [foreign]);
}

pub async fn deliveries_are_listed_in_pages<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let mut alerts = Vec::new();
    for past in [50, 40, 30] {
        alerts.push(alert(lab, &job, past).await);
    }
    lab.store.raise(&alerts).await.unwrap();
    let failed = Delivery::Failed { error: "refused".into(), again_in: Some(minutes(5)) };
    for (alert, delivery) in alerts.iter().zip([&failed, &failed, &Delivery::Done]) {
        lab.store.record_delivery("hook", alert.id(), delivery).await.unwrap();
        lab.store.record_delivery("other", alert.id(), delivery).await.unwrap();
    }
    lab.store.record_delivery("hook", alerts[0].id(), &Delivery::Done).await.unwrap();
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = lab.store.deliveries("hook", before, 2).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items);
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert!(seen.is_sorted_by(|a, b| a.key() > b.key()), "{seen:?}");
    assert!(seen.iter().all(|it| it.begun_at <= it.tried_at && it.id == it.alert.id()));
    let mut told: Vec<_> = seen
        .iter()
        .map(|it| {
            let place = alerts.iter().position(|alert| *alert == it.alert).unwrap();
            let error = it.error.as_deref();
            (place, it.tries, it.delivered_at.is_some(), it.next_try_at.is_some(), error)
        })
        .collect();
    told.sort();
    assert_eq!(
        told,
        [
            (0, 2, true, false, None),
            (1, 1, false, true, Some("refused")),
            (2, 1, true, false, None)
        ]
    );
    // A channel that is an object takes its deliveries with it.
    let now = lab.now().await;
    let channel = Object {
        id: ObjectId(Uuid::from_u128(7)),
        tenant: job.tenant,
        kind: ObjectKind::AlertChannel,
        name: "channel".into(),
        body: "{}".into(),
        version: 0,
        created_at: now,
        changed_at: now,
    };
    lab.store.put_object(&channel, 0, SYSTEM).await.unwrap();
    let name = channel.id.to_string();
    lab.store.record_delivery(&name, alerts[0].id(), &Delivery::Done).await.unwrap();
    let count =
        async |channel: &str| lab.store.deliveries(channel, None, 9).await.unwrap().items.len();
    assert_eq!((count(&name).await, count("hook").await), (1, 3));
    lab.store.remove_object(job.tenant, channel.id, 1, SYSTEM).await.unwrap();
    assert_eq!((count(&name).await, count("hook").await), (0, 3));
}
