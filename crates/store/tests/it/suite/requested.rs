//! The user that requested a run: kept with the run, and audited in the same commit.

use std::collections::BTreeMap;

use domain::access::{Entry, Tenant, User};
use domain::audit::{Kind, RequestedRun, requested_runs};
use domain::fairness::Tier;
use domain::id::{RunId, TenantId, UserId};
use domain::job::{Job, JobState};
use domain::partition::part_again;
use domain::run::{NewRun, Origin, RunState};
use jiff::Timestamp;
use store::{
    AuditFilter, AuditLog, Cancelled, ChangeFeed, ClaimFor, Cursor, Identity, ParentRun, Prepared,
    Recorded, SYSTEM, Shards, Store,
};

use crate::bench::Bench;
use crate::lab::{Lab, completed, processes, stop, tenant, want};

async fn user<B: Bench>(lab: &Lab<B>, name: &str) -> UserId {
    let home = Tenant {
        id: TenantId::DEFAULT,
        name: "default".to_owned(),
        tier: Tier::default(),
        max_jobs: None,
        max_concurrent: None,
        requests_per_second: None,
        external_jobs: false,
        job_defaults: Default::default(),
    };
    lab.store.put_entry(&Entry::Tenant(home), None, SYSTEM).await.unwrap();
    let user = User {
        id: UserId(lab.id()),
        tenant: TenantId::DEFAULT,
        name: name.to_owned(),
        password: None,
        scram: None,
        disabled: false,
    };
    let put = lab.store.put_entry(&Entry::User(user.clone()), None, SYSTEM).await.unwrap();
    assert!(matches!(put, Recorded::Done(_)), "{put:?}");
    user.id
}

/// A run of a job that was due a minute ago and that a user asks for.
async fn asked<B: Bench>(lab: &Lab<B>, job: &Job, by: Option<UserId>) -> NewRun {
    NewRun { requested_by: by, ..lab.run(job, lab.ago(60).await) }
}

/// Requests in the audit of a tenant, in the order of its rows: the actor and the runs.
async fn audited<B: Bench>(lab: &Lab<B>, of: TenantId) -> Vec<(String, Vec<RequestedRun>)> {
    let filter = AuditFilter { kinds: vec![Kind::RunsRequested], ..AuditFilter::of(of) };
    let rows = lab.store.audit(&filter, None, 100).await.unwrap();
    let row = |row: domain::audit::Record| {
        assert_eq!(row.event.outcome, "REQUESTED");
        let mut runs = requested_runs(&row.runs).expect("the list can be read");
        runs.sort_by_key(|run| run.run);
        (row.event.actor, runs)
    };
    rows.into_iter().rev().map(row).collect()
}

fn listed(runs: &[&NewRun]) -> Vec<RequestedRun> {
    let mut runs: Vec<_> = runs
        .iter()
        .map(|run| RequestedRun { run: run.id, job: run.job, origin: run.origin })
        .collect();
    runs.sort_by_key(|run| run.run);
    runs
}

pub async fn a_run_tells_who_asked_for_it_until_its_end_and_after<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let (ann, bob) = (user(lab, "ann").await, user(lab, "bob").await);
    // Together with others, and with runs that no user asked for.
    let runs = [
        asked(lab, &job, Some(ann)).await,
        asked(lab, &job, None).await,
        asked(lab, &job, Some(bob)).await,
    ];
    lab.submit(&runs).await;
    let who = async |run: &NewRun| lab.view(run.id).await.requested_by;
    for run in &runs {
        assert_eq!(who(run).await, run.requested_by);
    }
    assert_eq!(lab.store.cancel(runs[2].id, &stop(), SYSTEM).await.unwrap(), Cancelled::Ended);
    for held in lab.claim(node, want(9)).await {
        lab.finish(node, completed(node, &held)).await;
    }
    for run in &runs {
        assert!(matches!(lab.state(run.id).await, RunState::Ended(_)));
        assert_eq!(who(run).await, run.requested_by);
    }
    let since = Cursor::from(Timestamp::UNIX_EPOCH);
    let until = lab.now().await + crate::lab::minutes(60);
    let ended = lab.store.ended(since, until, 10).await.unwrap();
    let ended: BTreeMap<RunId, _> = ended.iter().map(|run| (run.id, run.requested_by)).collect();
    assert_eq!(ended, runs.iter().map(|run| (run.id, run.requested_by)).collect());
    // Runs that only one user requested.
    let alone = [asked(lab, &job, Some(bob)).await, asked(lab, &job, Some(bob)).await];
    lab.submit(&alone).await;
    assert_eq!((who(&alone[0]).await, who(&alone[1]).await), (Some(bob), Some(bob)));
}

pub async fn who_asked_is_audited_with_the_runs<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let mut elsewhere = lab.draft("elsewhere").await;
    elsewhere.tenant = tenant(9);
    lab.create(&elsewhere).await;
    let ann = user(lab, "ann").await;
    let gone = UserId(lab.id());
    let backfilled = NewRun { origin: Origin::Backfill, ..asked(lab, &job, Some(ann)).await };
    let runs = [
        asked(lab, &job, Some(ann)).await,
        backfilled,
        asked(lab, &job, Some(gone)).await,
        asked(lab, &elsewhere, Some(ann)).await,
        lab.tick(&job, lab.ago(30).await),
    ];
    let born = Some(ClaimFor { node, max: processes(9) });
    let submitted = lab.store.submit(&runs, born).await.unwrap();
    assert_eq!((submitted.accepted, submitted.claimed.len()), (vec![true; 5], 5));
    let mut ours = audited(lab, TenantId::DEFAULT).await;
    ours.sort_by_key(|row| std::cmp::Reverse(row.0.len()));
    // A deleted user is named by their id.
    let expected = [
        (gone.to_string(), listed(&[&runs[2]])),
        ("ann".to_owned(), listed(&[&runs[0], &runs[1]])),
    ];
    assert_eq!(ours, expected);
    assert_eq!(audited(lab, tenant(9)).await, [("ann".to_owned(), listed(&[&runs[3]]))]);
    // Sent again while they run, beside a new one, and after their end: only the new one is
    // audited.
    let new = asked(lab, &job, Some(ann)).await;
    let batch = [runs[0].clone(), new.clone(), runs[3].clone()];
    assert_eq!(lab.store.submit(&batch, born).await.unwrap().accepted, [false, true, false]);
    for held in &submitted.claimed {
        lab.finish(node, completed(node, held)).await;
    }
    assert_eq!(lab.store.submit(&runs, born).await.unwrap().accepted, [false; 5]);
    assert_eq!(lab.store.submit(&batch, None).await.unwrap().accepted, [false; 3]);
    let after: Vec<_> = audited(lab, TenantId::DEFAULT).await.split_off(2);
    assert_eq!(after, [("ann".to_owned(), listed(&[&new]))]);
    assert_eq!(audited(lab, tenant(9)).await.len(), 1);
    // Rows that list runs are found by a filter for a job.
    let its = AuditFilter { job: Some(job.id), ..AuditFilter::of(TenantId::DEFAULT) };
    let rows = lab.store.audit(&its, None, 100).await.unwrap();
    assert!(rows.iter().any(|row| row.event.kind == Kind::RunsRequested));
}

pub async fn what_was_not_recorded_is_not_audited<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.job("job").await;
    let ann = user(lab, "ann").await;
    let stale = asked(lab, &job, Some(ann)).await;
    lab.update(&mut job, Prepared::Keep).await;
    let good = asked(lab, &job, Some(ann)).await;
    let submitted = lab.store.submit(&[stale.clone(), good.clone()], None).await.unwrap();
    assert_eq!((submitted.accepted, submitted.stale), (vec![false, true], vec![stale.id]));
    let only = [("ann".to_owned(), listed(&[&good]))];
    assert_eq!(audited(lab, TenantId::DEFAULT).await, only);
    assert_eq!(lab.store.submit(&[stale, good], None).await.unwrap().accepted, [false; 2]);
    assert_eq!(audited(lab, TenantId::DEFAULT).await, only);
}

pub async fn many_runs_of_a_user_are_audited_together<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("job").await;
    let ann = user(lab, "ann").await;
    let due_at = lab.ago(60).await;
    let run = |_| NewRun { requested_by: Some(ann), ..lab.run(&job, due_at) };
    let runs: Vec<NewRun> = (0..1_200).map(run).collect();
    lab.submit(&runs).await;
    let rows = audited(lab, TenantId::DEFAULT).await;
    assert!(rows.len() <= 2, "{} rows", rows.len());
    let mut found: Vec<RunId> = rows.iter().flat_map(|(_, runs)| runs).map(|run| run.run).collect();
    found.sort_unstable();
    let mut expected: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

pub async fn parts_belong_to_who_asked_for_the_run<B: Bench>(lab: &Lab<B>) {
    let (node, mut job) = (lab.node().await, lab.job("job").await);
    let ann = user(lab, "ann").await;
    let run = asked(lab, &job, Some(ann)).await;
    lab.submit(std::slice::from_ref(&run)).await;
    let held = lab.claim_one(node).await;
    // The job is changed while its run is split: the parts follow the version of the run.
    lab.update(&mut job, Prepared::Keep).await;
    let now = lab.now().await;
    let parts: Vec<NewRun> = (0..2).map(|n| part_again(&held.run, n, "", None, now)).collect();
    let whole = ParentRun::Held(node, held.grant);
    assert!(lab.store.split_run(whole, &parts).await.unwrap());
    for part in &parts {
        let view = lab.view(part.id).await;
        assert_eq!((view.requested_by, view.origin), (Some(ann), Origin::Part));
    }
    // A run that is split from the beginning was asked for once, and so were its parts.
    let again = NewRun { requested_by: Some(ann), ..lab.run(&job, now) };
    let parts: Vec<NewRun> = (0..2).map(|n| part_again(&again, n, "", None, now)).collect();
    assert!(lab.store.split_run(ParentRun::New(&again), &parts).await.unwrap());
    assert_eq!(lab.view(again.id).await.requested_by, Some(ann));
    assert_eq!(lab.view(parts[1].id).await.requested_by, Some(ann));
    let rows = audited(lab, TenantId::DEFAULT).await;
    let row = |run: &NewRun| ("ann".to_owned(), listed(&[run]));
    assert_eq!(rows, [row(&run), row(&again)]);
}

pub async fn the_creator_of_a_job_is_known_after_its_end<B: Bench>(lab: &Lab<B>) {
    let (mut gone, kept) = (lab.job("gone").await, lab.job("kept").await);
    gone.state = JobState::Deleted;
    lab.update(&mut gone, Prepared::Drop).await;
    let unknown = domain::id::JobId(lab.id());
    let mut found = lab.store.job_creators(&[gone.id, unknown, kept.id]).await.unwrap();
    found.sort();
    let mut expected = [(gone.id, gone.owner), (kept.id, kept.owner)];
    expected.sort();
    assert_eq!(found, expected);
}
