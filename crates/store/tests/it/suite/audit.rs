//! The audit: rows are written with the change they record, are sealed in order, and reveal
//! tampering.

use domain::audit::{Event, Kind, Record, Seal, ended_runs, verify};
use domain::id::{ObjectId, TenantId};
use domain::job::JobState;
use domain::object::{Object, ObjectKind};
use domain::run::Outcome;
use domain::secret::{Scope, SecretPlace};
use store::{
    AuditFilter, AuditLog, Cancelled, Chain, Changed, ClaimRequest, KeptSecret, NamedResources,
    Prepared, Sealed, SecretStore, Set, Settings, Store,
};

use crate::bench::Bench;
use crate::lab::{Lab, completed, ended, retried, seconds, stop, tenant};

async fn all<B: Bench>(lab: &Lab<B>, tenant: TenantId) -> Vec<Record> {
    let mut rows = lab.store.audit(&AuditFilter::of(tenant), None, 1_000).await.unwrap();
    rows.reverse();
    rows
}

/// Audit rows of a tenant as text, oldest first.
async fn said<B: Bench>(lab: &Lab<B>, tenant: TenantId) -> Vec<String> {
    let say = |row: Record| {
        let Event { actor, kind, outcome, .. } = row.event;
        format!("{actor} {kind} {outcome}")
    };
    all(lab, tenant).await.into_iter().map(say).collect()
}

fn event(n: usize) -> Event {
    Event {
        tenant: TenantId::DEFAULT,
        actor: format!("user {}", n % 2),
        kind: if n.is_multiple_of(3) { Kind::Login } else { Kind::Denied },
        job: None,
        run: None,
        outcome: "DONE \u{2714}".to_owned(),
        details: format!("{{\"n\":{n}}}"),
    }
}

async fn record<B: Bench>(lab: &Lab<B>, count: usize) {
    let events: Vec<Event> = (0..count).map(event).collect();
    lab.store.record(&events).await.unwrap();
}

/// Seals up to so many rows, as a node does. Returns whether it was the first.
async fn seal<S: AuditLog>(store: &S, tenant: TenantId, limit: u32) -> bool {
    let rows = store.unsealed(limit).await.unwrap();
    let head = store.chain(tenant).await.unwrap().head;
    let mut last = head;
    let seals: Vec<_> = rows
        .iter()
        .filter(|row| row.event.tenant == tenant)
        .map(|row| {
            last = row.sealed_behind(last);
            (row.place, last.hash)
        })
        .collect();
    store.seal(tenant, head, &seals).await.unwrap()
}

pub async fn what_is_done_is_recorded_with_it<B: Bench>(lab: &Lab<B>) {
    lab.set_author("anna");
    let mut job = lab.job("job").await;
    lab.update(&mut job, Prepared::Keep).await;
    // A refused change leaves no row.
    let taken = lab.draft("job").await;
    assert!(matches!(lab.change(&taken, None, Prepared::Keep).await, Changed::NameTaken(_)));
    let stale = lab.change(&job, Some(7), Prepared::Keep).await;
    assert_eq!(stale, Changed::VersionConflict(2));
    job.state = JobState::Deleted;
    lab.update(&mut job, Prepared::Drop).await;
    assert_eq!(lab.store.set("limit", Some("1"), 0, "anna").await.unwrap(), Set::Done(1));
    assert_eq!(lab.store.set("limit", Some("2"), 0, "anna").await.unwrap(), Set::Conflict(1));
    assert_eq!(lab.store.set("limit", Some("2"), 1, "anna").await.unwrap(), Set::Done(2));
    assert_eq!(lab.store.set("limit", None, 2, "anna").await.unwrap(), Set::Done(0));
    assert_eq!(lab.store.set("limit", None, 0, "anna").await.unwrap(), Set::Done(0));
    let rows = all(lab, TenantId::DEFAULT).await;
    assert!(rows.windows(2).all(|pair| pair[0].place < pair[1].place));
    let now = lab.now().await;
    assert!(rows.iter().all(|row| row.at <= now && row.event.job.is_some() && row.seal.is_none()));
    assert_eq!(rows[1].event.details, r#"{"name":"job","state":"ENABLED","version":2}"#);
    assert_eq!(
        said(lab, TenantId::DEFAULT).await,
        ["anna JOB_CREATED DONE", "anna JOB_MODIFIED DONE", "anna JOB_DELETED DONE"]
    );
    assert_eq!(said(lab, TenantId::CLUSTER).await, ["anna SETTING_CHANGED DONE"; 3]);
}

pub async fn changes_of_secrets_are_recorded_without_values<B: Bench>(lab: &Lab<B>) {
    let place = SecretPlace { scope: Scope::Tenant(tenant(9)), name: "KEY".to_owned() };
    let sealed =
        Sealed { key: "k".into(), data_key: b"wrapped".to_vec(), value: b"sealed".to_vec() };
    let secret = |version| KeptSecret {
        place: place.clone(),
        version,
        sealed: sealed.clone(),
        changed_by: "anna".to_owned(),
    };
    lab.store.keep_secret(&secret(1)).await.unwrap();
    lab.store.keep_secret(&secret(1)).await.unwrap();
    lab.store.keep_secret(&secret(2)).await.unwrap();
    lab.store.remove_secret(&place, 1, "bob").await.unwrap();
    lab.store.remove_secret(&place, 2, "bob").await.unwrap();
    let rows = all(lab, tenant(9)).await;
    let details: Vec<_> = rows.iter().map(|row| row.event.details.as_str()).collect();
    let expected = [1, 2, 0]
        .map(|version| format!("{{\"name\":\"KEY\",\"scope\":\"tenant\",\"version\":{version}}}"));
    assert_eq!(details, expected);
    assert_eq!(
        said(lab, tenant(9)).await,
        ["anna SECRET_CHANGED DONE", "anna SECRET_CHANGED DONE", "bob SECRET_CHANGED DELETED"]
    );
}

pub async fn changes_of_databases_and_channels_are_recorded<B: Bench>(lab: &Lab<B>) {
    let now = lab.now().await;
    let draft = Object {
        id: ObjectId(lab.id()),
        tenant: tenant(9),
        kind: ObjectKind::Database,
        name: "sales \"\u{2714}\"".to_owned(),
        body: "{\"password\":\"open sesame\"}".to_owned(),
        version: 0,
        created_at: now,
        changed_at: now,
    };
    lab.store.put_object(&draft, 0, "anna").await.unwrap();
    lab.store.put_object(&draft, 0, "anna").await.unwrap();
    lab.store.put_object(&draft, 1, "anna").await.unwrap();
    lab.store.remove_object(draft.tenant, draft.id, 1, "anna").await.unwrap();
    lab.store.remove_object(draft.tenant, draft.id, 2, "anna").await.unwrap();
    let rows = all(lab, tenant(9)).await;
    let details: Vec<_> = rows.iter().map(|row| row.event.details.as_str()).collect();
    let expected = [1, 2, 0].map(|version| {
        let name = "\"sales \\\"\u{2714}\\\"\"";
        format!("{{\"kind\":\"DATABASE\",\"name\":{name},\"version\":{version}}}")
    });
    assert_eq!(details, expected);
    assert_eq!(
        said(lab, tenant(9)).await,
        ["anna SETTING_CHANGED DONE", "anna SETTING_CHANGED DONE", "anna SETTING_CHANGED DELETED"]
    );
}

pub async fn who_asked_for_an_end_is_recorded<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let held = lab.started(node, &job).await;
    let queued = lab.due(&job).await;
    let before = all(lab, TenantId::DEFAULT).await.len();
    let cancel = async |run| lab.store.cancel(run, &stop(), "anna").await.unwrap();
    assert_eq!(cancel(held.run.id).await, Cancelled::Requested(node));
    assert_eq!(cancel(queued.id).await, Cancelled::Ended);
    assert_eq!(cancel(queued.id).await, Cancelled::EndedBefore(Outcome::Cancelled));
    let rows = all(lab, TenantId::DEFAULT).await;
    let said: Vec<_> = rows[before..]
        .iter()
        .map(|row| (row.event.run, row.event.outcome.as_str(), row.event.details.as_str()))
        .collect();
    let expected =
        [(Some(held.run.id), "REQUESTED", "by hand"), (Some(queued.id), "CANCELLED", "by hand")];
    assert_eq!(said, expected);
    assert!(rows[before..].iter().all(|row| row.event.job == Some(job.id)));
}

pub async fn runs_that_end_together_are_one_row<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let mut elsewhere = lab.draft("elsewhere").await;
    elsewhere.tenant = tenant(9);
    lab.create(&elsewhere).await;
    let mut held = lab.line(node, &job, 4).await;
    let foreign = lab.started(node, &elsewhere).await;
    let again = held.pop().unwrap();
    let mut first = completed(node, &held[0]);
    let attempt = first.attempt.as_mut().unwrap();
    attempt.result.rows_affected = Some(7);
    let done = [
        first,
        ended(node, &held[1], Outcome::Failed),
        completed(node, &foreign),
        ended(node, &held[2], Outcome::Skipped),
        retried(node, &again, seconds(1)),
    ];
    let finished_at = done.iter().map(|finish| finish.attempt.clone()).collect::<Vec<_>>();
    lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    // Sent again, it adds no row.
    lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    let lists = async |tenant| -> Vec<Record> {
        let rows = all(lab, tenant).await.into_iter();
        rows.filter(|row| row.event.kind == Kind::RunsEnded).collect()
    };
    let [ours] = lists(TenantId::DEFAULT).await.try_into().unwrap();
    let [theirs] = lists(tenant(9)).await.try_into().unwrap();
    assert_eq!((ours.node, theirs.node), (Some(node), Some(node)));
    let mut runs = ended_runs(&ours.runs).unwrap();
    runs.sort_by_key(|run| run.run);
    let seen: Vec<_> =
        runs.iter().map(|run| (run.run, run.outcome, run.attempt, run.kind())).collect();
    let run = |at: usize| held[at].run.id;
    let mut expected = [
        (run(0), Outcome::Completed, 1, "JOB_EXECUTED"),
        (run(1), Outcome::Failed, 1, "JOB_FAILED"),
        (run(2), Outcome::Skipped, 0, "JOB_SKIPPED"),
    ];
    expected.sort_by_key(|(run, ..)| *run);
    assert_eq!(seen, expected);
    let first = runs.iter().find(|found| found.run == run(0)).unwrap();
    assert_eq!(first.started_at, finished_at[0].as_ref().map(|attempt| attempt.started_at));
    assert_eq!(first.job, job.id);
    let rows: Vec<_> = runs.iter().map(|found| (found.run, found.rows_affected)).collect();
    assert!(rows.contains(&(run(0), Some(7))) && rows.contains(&(run(1), None)), "{rows:?}");
    assert_eq!(ended_runs(&theirs.runs).unwrap()[0].run, foreign.run.id);
}

pub async fn rows_are_sealed_in_order_and_stay_what_they_were<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job \u{2714}").await);
    let held = lab.started(node, &job).await;
    lab.finish(node, completed(node, &held)).await;
    record(lab, 5).await;
    assert_eq!(lab.store.chain(TenantId::DEFAULT).await.unwrap(), Chain::default());
    assert_eq!(lab.store.sealed(TenantId::DEFAULT, 0, 10).await.unwrap(), []);
    // In portions, and in the order in which they were written.
    while !lab.store.unsealed(1).await.unwrap().is_empty() {
        assert!(seal(lab.store.as_ref(), TenantId::DEFAULT, 3).await);
    }
    let rows = lab.store.sealed(TenantId::DEFAULT, 0, 100).await.unwrap();
    assert_eq!(rows.len(), 7);
    assert_eq!(rows, all(lab, TenantId::DEFAULT).await);
    let head = lab.store.chain(TenantId::DEFAULT).await.unwrap().head;
    assert_eq!(verify(Seal::GENESIS, &rows), Ok(head));
    assert_eq!(head.number, 7);
    let part = lab.store.sealed(TenantId::DEFAULT, 2, 2).await.unwrap();
    assert_eq!(part, rows[2..4]);
    assert_eq!(lab.store.audited_tenants().await.unwrap(), [TenantId::DEFAULT]);
}

pub async fn of_two_who_seal_one_is_first<B: Bench>(lab: &Lab<B>) {
    let handle = lab.bench.handle().await;
    for round in 1..=5 {
        record(lab, 10).await;
        let rows = lab.store.unsealed(100).await.unwrap();
        let head = lab.store.chain(TenantId::DEFAULT).await.unwrap().head;
        let mut last = head;
        let seals: Vec<_> = rows
            .iter()
            .map(|row| {
                last = row.sealed_behind(last);
                (row.place, last.hash)
            })
            .collect();
        let (first, second) = tokio::join!(
            lab.store.seal(TenantId::DEFAULT, head, &seals),
            handle.seal(TenantId::DEFAULT, head, &seals[..4])
        );
        assert_ne!(first.unwrap(), second.unwrap(), "one of them was first");
        while !lab.store.unsealed(1).await.unwrap().is_empty() {
            seal(lab.store.as_ref(), TenantId::DEFAULT, 100).await;
        }
        let rows = lab.store.sealed(TenantId::DEFAULT, 0, 100).await.unwrap();
        let head = lab.store.chain(TenantId::DEFAULT).await.unwrap().head;
        assert_eq!(verify(Seal::GENESIS, &rows), Ok(head));
        assert_eq!(head.number, round * 10);
    }
}

pub async fn a_forgotten_beginning_leaves_its_hash<B: Bench>(lab: &Lab<B>) {
    record(lab, 6).await;
    let later = lab.now().await + seconds(60);
    let prune = async |before, limit| {
        lab.store.prune_audit(TenantId::DEFAULT, before, limit).await.unwrap()
    };
    // Rows that are not sealed are not pruned.
    assert_eq!(prune(later, 10).await, 0);
    seal(lab.store.as_ref(), TenantId::DEFAULT, 4).await;
    assert_eq!(prune(lab.ago(60).await, 10).await, 0);
    let third = lab.store.sealed(TenantId::DEFAULT, 2, 1).await.unwrap().remove(0);
    assert_eq!(prune(later, 3).await, 3);
    seal(lab.store.as_ref(), TenantId::DEFAULT, 10).await;
    let Chain { anchor, anchor_at, head } = lab.store.chain(TenantId::DEFAULT).await.unwrap();
    assert_eq!((anchor.number, head.number), (3, 6));
    assert_eq!(anchor_at, Some(third.at));
    let rows = lab.store.sealed(TenantId::DEFAULT, 0, 10).await.unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(verify(anchor, &rows), Ok(head));
    // The last old row stays: its hash proves that the rows before it were old as well.
    assert_eq!(prune(later, 10).await, 2);
    assert_eq!(prune(later, 10).await, 0);
    let Chain { anchor, .. } = lab.store.chain(TenantId::DEFAULT).await.unwrap();
    assert_eq!(anchor.number, 5);
    // The chain goes on behind the pruned rows.
    record(lab, 1).await;
    seal(lab.store.as_ref(), TenantId::DEFAULT, 10).await;
    let rows = lab.store.sealed(TenantId::DEFAULT, 0, 10).await.unwrap();
    assert_eq!((rows.len(), verify(anchor, &rows).unwrap().number), (2, 7));
}

pub async fn rows_are_found_by_what_they_say<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    record(lab, 6).await;
    let of = AuditFilter::of(TenantId::DEFAULT);
    let found = async |filter: AuditFilter, from, limit| -> Vec<String> {
        let rows = lab.store.audit(&filter, from, limit).await.unwrap();
        rows.into_iter().map(|row| format!("{} {}", row.event.kind, row.event.actor)).collect()
    };
    let logins = AuditFilter { kinds: vec![Kind::Login], ..of.clone() };
    assert_eq!(found(logins, None, 10).await, ["LOGIN user 1", "LOGIN user 0"]);
    let actor = AuditFilter { actor: Some("user 1".to_owned()), ..of.clone() };
    assert_eq!(found(actor, None, 10).await.len(), 3);
    let its = AuditFilter { job: Some(job.id), ..of.clone() };
    assert_eq!(found(its, None, 10).await, ["JOB_CREATED punctual"]);
    let (past, future) = (lab.ago(60).await, lab.now().await + seconds(60));
    for (since, until, count) in
        [(Some(past), Some(future), 7), (Some(future), None, 0), (None, Some(past), 0)]
    {
        let filter = AuditFilter { since, until, ..of.clone() };
        assert_eq!(found(filter, None, 10).await.len(), count);
    }
    let rows = all(lab, TenantId::DEFAULT).await;
    assert_eq!(found(of.clone(), Some(rows[2].place), 2).await.len(), 2);
    assert_eq!(found(of, Some(rows[0].place), 10).await, ["JOB_CREATED punctual"]);
    assert_eq!(found(AuditFilter::of(tenant(9)), None, 10).await, [] as [String; 0]);
}

/// A node that read rows before another node sealed them, and the end of the chain after that, is
/// refused.
pub async fn what_is_sealed_is_not_sealed_again<B: Bench>(lab: &Lab<B>) {
    record(lab, 4).await;
    let seen = lab.store.unsealed(2).await.unwrap();
    assert!(seal(&*lab.store, TenantId::DEFAULT, 3).await);
    let head = lab.store.chain(TenantId::DEFAULT).await.unwrap().head;
    let mut last = head;
    let again = seen.iter().map(|row| {
        last = row.sealed_behind(last);
        (row.place, last.hash)
    });
    let again: Vec<_> = again.collect();
    assert!(!lab.store.seal(TenantId::DEFAULT, head, &again).await.unwrap());
    assert_eq!(lab.store.chain(TenantId::DEFAULT).await.unwrap().head, head, "nothing was written");
    assert!(seal(&*lab.store, TenantId::DEFAULT, 9).await);
    let rows = lab.store.sealed(TenantId::DEFAULT, 0, 9).await.unwrap();
    let end = lab.store.chain(TenantId::DEFAULT).await.unwrap().head;
    assert_eq!((rows.len(), verify(Seal::GENESIS, &rows)), (4, Ok(end)));
}
