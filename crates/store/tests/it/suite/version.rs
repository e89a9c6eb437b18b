//! The versions of jobs.

use domain::id::JobId;
use domain::job::{JobState, When};
use domain::run::Outcome;
use store::{Change, Changed, JobRecords, Prepared, PrunedJobs, SYSTEM, Store, VERSIONS_MAX};

use crate::bench::Bench;
use crate::lab::{Lab, ended, tenant};

/// The numbers of a job's versions, newest first.
async fn numbers<B: Bench>(lab: &Lab<B>, job: &domain::job::Job) -> Vec<u32> {
    let page = lab.store.job_versions(job.id, None, 5_000).await.unwrap();
    assert_eq!(page.next, None);
    page.items.iter().map(|version| version.version).collect()
}

pub async fn every_version_of_a_job_is_kept_with_its_author<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.draft("report").await;
    lab.set_author("ann");
    lab.create(&job).await;
    let first = job.clone();
    job.name = "other".to_owned();
    job.definition.priority = 7;
    job.version = 2;
    job.updated_at = lab.now().await;
    let change = Change {
        job: job.clone(),
        expected: Some(1),
        prepared: Prepared::Keep,
        plan: None,
        changed: vec!["name".to_owned(), "priority".to_owned()],
    };
    let changed = lab.store.define(&[change], "ben").await.unwrap();
    assert_eq!(changed, [Changed::Done]);
    job.state = JobState::Deleted;
    lab.set_author(SYSTEM);
    lab.update(&mut job, Prepared::Drop).await;

    let versions = lab.store.job_versions(job.id, None, 10).await.unwrap().items;
    let told: Vec<_> = versions
        .iter()
        .map(|it| (it.version, it.changed_by.as_str(), it.name.as_str(), it.state))
        .collect();
    assert_eq!(
        told,
        [
            (3, "punctual", "other", JobState::Deleted),
            (2, "ben", "other", JobState::Enabled),
            (1, "ann", "report", JobState::Enabled),
        ]
    );
    assert_eq!(versions[2].definition, first.definition);
    assert_eq!(versions[2].changed_at, first.updated_at);
    assert_eq!(versions[1].definition, job.definition);
    assert_eq!(versions[1].changed, ["name", "priority"]);
    assert_eq!(lab.store.job_version(job.id, 2).await.unwrap().as_ref(), Some(&versions[1]));
    assert_eq!(lab.store.job_version(job.id, 4).await.unwrap(), None);
    let other = lab.job("other").await;
    assert_eq!(numbers(lab, &other).await, [1]);
}

pub async fn a_refused_change_leaves_no_version<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("report").await;
    let mut late = job.clone();
    late.version = 8;
    assert_eq!(lab.change(&late, Some(7), Prepared::Keep).await, Changed::VersionConflict(1));
    let twin = lab.draft("report").await;
    assert_eq!(lab.change(&twin, None, Prepared::Keep).await, Changed::NameTaken(job.id));
    assert_eq!(numbers(lab, &job).await, [1]);
    assert_eq!(numbers(lab, &twin).await, [] as [u32; 0]);
}

/// Without it a run could name a version that cannot be looked up.
pub async fn the_end_of_a_one_time_job_is_a_version<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let mut job = lab.draft("once").await;
    let at = lab.ago(60).await;
    job.definition.when = When::At { at };
    lab.create(&job).await;
    lab.submit(&[lab.tick(&job, at)]).await;
    let claimed = lab.claim_one(node).await;
    let mut finish = ended(node, &claimed, Outcome::Completed);
    finish.job_state = Some(JobState::Completed);
    lab.finish(node, finish).await;
    assert_eq!(lab.stored(&job).await.unwrap().version, 2);
    let versions = lab.store.job_versions(job.id, None, 10).await.unwrap().items;
    let told: Vec<_> = versions.iter().map(|it| (it.version, it.state, &it.changed[..])).collect();
    let status = ["status".to_owned()];
    assert_eq!(told, [(2, JobState::Completed, &status[..]), (1, JobState::Enabled, &[])]);
}

pub async fn versions_come_in_pages_and_the_oldest_go<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.job("busy").await;
    // Far fewer writes than versions: their numbers may have gaps.
    for version in [2, 3, 500, VERSIONS_MAX + 1, VERSIONS_MAX + 2] {
        let expected = Some(job.version);
        job.version = version;
        assert_eq!(lab.change(&job, expected, Prepared::Keep).await, Changed::Done);
    }
    assert_eq!(numbers(lab, &job).await, [VERSIONS_MAX + 2, VERSIONS_MAX + 1, 500, 3]);
    let first = lab.store.job_versions(job.id, None, 3).await.unwrap();
    assert_eq!((first.items.len(), first.next), (3, Some(500)));
    let second = lab.store.job_versions(job.id, first.next, 3).await.unwrap();
    let numbers: Vec<u32> = second.items.iter().map(|version| version.version).collect();
    assert_eq!((numbers, second.next), (vec![3], None));
}

pub async fn jobs_are_found_by_names_that_they_had<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.job("old").await;
    job.name = "new".to_owned();
    lab.update(&mut job, Prepared::Keep).await;
    let other = lab.job("old").await;
    let names = [(job.id, 1), (job.id, 2), (job.id, 77), (other.id, 1), (JobId(lab.id()), 1)];
    let told = lab.store.job_names(&names).await.unwrap();
    let told: Vec<Option<&str>> = told.iter().map(Option::as_deref).collect();
    assert_eq!(told, [Some("old"), Some("new"), Some("new"), Some("old"), None]);

    job.state = JobState::Deleted;
    lab.update(&mut job, Prepared::Drop).await;
    let found = async |name: &str, limit| {
        let jobs = lab.store.jobs_ever_named(job.tenant, name, limit).await.unwrap();
        jobs.iter().map(|job| (job.id, job.state)).collect::<Vec<_>>()
    };
    // The present job comes first.
    let (present, past) = ((other.id, JobState::Enabled), (job.id, JobState::Deleted));
    assert_eq!(found("old", 9).await, [present, past]);
    assert_eq!(found("old", 1).await, [present]);
    assert_eq!(found("new", 9).await, [past]);
    assert_eq!(found("nothing", 9).await, []);
    assert_eq!(lab.store.jobs_ever_named(tenant(9), "new", 9).await.unwrap(), []);
    let mut ever = lab.store.jobs_ever(&[other.id, job.id, JobId(lab.id())]).await.unwrap();
    ever.sort_by_key(|job| job.id);
    assert_eq!(ever.iter().map(|job| job.id).collect::<Vec<_>>(), [job.id, other.id]);
}

pub async fn deleted_jobs_stay_as_long_as_their_history<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (mut with, mut without) = (lab.draft("with").await, lab.draft("without").await);
    let mut fresh = lab.draft("fresh").await;
    let long_ago = lab.ago(2 * 86_400).await;
    for job in [&mut with, &mut without, &mut fresh] {
        lab.create(job).await;
    }
    let claimed = lab.started(node, &with).await;
    lab.finish(node, ended(node, &claimed, Outcome::Completed)).await;
    for (job, at) in
        [(&mut with, long_ago), (&mut without, long_ago), (&mut fresh, lab.now().await)]
    {
        (job.state, job.updated_at) = (JobState::Deleted, at);
        lab.update(job, Prepared::Drop).await;
    }
    let listed = async |before, limit| {
        let jobs = lab.store.deleted_jobs(with.tenant, before, limit).await.unwrap();
        jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(None, 9).await, [fresh.id, without.id, with.id]);
    assert_eq!(listed(Some(fresh.id), 1).await, [without.id]);
    let pruned = lab.store.prune_deleted_jobs(None, 2).await.unwrap();
    assert_eq!(pruned, PrunedJobs { removed: 1, last: Some(without.id) });
    let pruned = lab.store.prune_deleted_jobs(pruned.last, 2).await.unwrap();
    assert_eq!(pruned, PrunedJobs { removed: 0, last: Some(fresh.id) });
    let pruned = lab.store.prune_deleted_jobs(pruned.last, 2).await.unwrap();
    assert_eq!(pruned, PrunedJobs::default());
    assert_eq!(listed(None, 9).await, [fresh.id, with.id]);
    assert_eq!(numbers(lab, &without).await, [] as [u32; 0]);
    assert_eq!(numbers(lab, &with).await, [2, 1]);
}

pub async fn a_run_tells_when_it_was_recorded<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let before = lab.now().await;
    let claimed = lab.started(node, &job).await;
    let after = lab.now().await;
    let recorded = lab.view(claimed.run.id).await.created_at;
    assert!(before <= recorded && recorded <= after, "{before} {recorded} {after}");
    lab.finish(node, ended(node, &claimed, Outcome::Completed)).await;
    assert_eq!(lab.view(claimed.run.id).await.created_at, recorded);
    let cancelled = lab.run(&job, lab.now().await + crate::lab::minutes(5));
    lab.submit(std::slice::from_ref(&cancelled)).await;
    let recorded = lab.view(cancelled.id).await.created_at;
    lab.store.cancel(cancelled.id, &crate::lab::stop(), SYSTEM).await.unwrap();
    assert_eq!(lab.view(cancelled.id).await.created_at, recorded);
}
