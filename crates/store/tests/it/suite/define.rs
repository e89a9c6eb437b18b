//! Defining jobs: names, versions, and prepared runs.

use std::sync::Arc;

use domain::bucket::Buckets;
use domain::id::NodeId;
use domain::job::{Dependency, DependsOn, Job, JobState};
use store::{AuditLog, Change, Changed, Cluster, JobRecords, Prepared, SYSTEM, Store};
use tokio::task::JoinSet;

use crate::bench::Bench;
use crate::lab::{Lab, minutes, seconds, tenant};

pub async fn a_job_is_read_as_it_was_written<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.draft("report").await;
    job.next_run = Some(lab.now().await);
    job.definition.description = Some("täglich".into());
    job.definition.tags = vec!["finance".into()];
    job.definition.start_deadline = Some(seconds(90));
    lab.create(&job).await;
    assert_eq!(lab.stored(&job).await, Some(job.clone()));
    assert_eq!(lab.store.job_by_name(job.tenant, "report").await.unwrap(), Some(job));
}

pub async fn a_name_belongs_to_one_job_of_a_tenant<B: Bench>(lab: &Lab<B>) {
    let first = lab.job("report").await;
    let second = lab.draft("report").await;
    let taken = Changed::NameTaken(first.id);
    assert_eq!(lab.change(&second, None, Prepared::Keep).await, taken);
    assert_eq!(lab.stored(&second).await, None);
    let elsewhere = Job { tenant: tenant(9), ..second.clone() };
    assert_eq!(lab.change(&elsewhere, None, Prepared::Keep).await, Changed::Done);
    let mut third = lab.job("other").await;
    third.name = "report".into();
    third.version = 2;
    assert_eq!(lab.change(&third, Some(1), Prepared::Keep).await, taken);
    assert_eq!(lab.stored(&third).await.unwrap().name, "other");
}

pub async fn a_created_job_that_is_sent_again_is_found<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("report").await;
    assert_eq!(lab.change(&job, None, Prepared::Keep).await, Changed::NameTaken(job.id));
}

/// An id that is taken is a conflict like any other.
pub async fn an_id_belongs_to_one_job<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("report").await;
    let (twin, other) = (Job { name: "twin".into(), ..job.clone() }, lab.draft("other").await);
    let changes = [&twin, &other].map(|job| Change {
        job: job.clone(),
        expected: None,
        prepared: Prepared::Keep,
        plan: None,
        changed: Vec::new(),
    });
    let changed = lab.store.define(&changes, SYSTEM).await.unwrap();
    assert_eq!(changed, [Changed::VersionConflict(1), Changed::Done]);
    assert_eq!(lab.stored(&job).await, Some(job));
}

pub async fn a_deleted_job_frees_its_name<B: Bench>(lab: &Lab<B>) {
    let mut first = lab.job("report").await;
    first.state = JobState::Deleted;
    lab.update(&mut first, Prepared::Drop).await;
    assert_eq!(lab.stored(&first).await, None);
    assert_eq!(lab.store.job_by_name(first.tenant, "report").await.unwrap(), None);
    let second = lab.job("report").await;
    assert_eq!(lab.stored(&second).await, Some(second));
    // Nothing brings the first one back.
    first.state = JobState::Enabled;
    first.name = "phoenix".into();
    let expected = Some(first.version);
    assert_eq!(lab.change(&first, expected, Prepared::Keep).await, Changed::NotFound);
}

pub async fn a_job_can_be_renamed<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.job("old").await;
    job.name = "new".into();
    lab.update(&mut job, Prepared::Keep).await;
    assert_eq!(lab.store.job_by_name(job.tenant, "old").await.unwrap(), None);
    assert_eq!(lab.store.job_by_name(job.tenant, "new").await.unwrap(), Some(job));
    lab.job("old").await;
}

pub async fn a_change_names_the_version_it_is_based_on<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.job("report").await;
    lab.update(&mut job, Prepared::Keep).await;
    let mut late = job.clone();
    late.definition.priority = 9;
    let conflict = lab.change(&late, Some(1), Prepared::Keep).await;
    assert_eq!(conflict, Changed::VersionConflict(2));
    assert_eq!(lab.stored(&job).await, Some(job.clone()));
    let unknown = lab.draft("nowhere").await;
    assert_eq!(lab.change(&unknown, Some(1), Prepared::Keep).await, Changed::NotFound);
}

pub async fn a_conflict_does_not_stop_the_other_changes<B: Bench>(lab: &Lab<B>) {
    let stored = lab.job("stored").await;
    let (first, last) = (lab.draft("first").await, lab.draft("last").await);
    let taken = lab.draft("stored").await;
    let unknown = lab.draft("unknown").await;
    let change = |job: &Job, expected| Change {
        job: job.clone(),
        expected,
        prepared: Prepared::Keep,
        plan: None,
        changed: Vec::new(),
    };
    let changes = [
        change(&first, None),
        change(&taken, None),
        change(&unknown, Some(3)),
        change(&Job { version: 8, ..stored.clone() }, Some(7)),
        change(&last, None),
    ];
    let changed = lab.store.define(&changes, SYSTEM).await.unwrap();
    let expected = [
        Changed::Done,
        Changed::NameTaken(stored.id),
        Changed::NotFound,
        Changed::VersionConflict(1),
        Changed::Done,
    ];
    assert_eq!(changed, expected);
    assert!(lab.stored(&first).await.is_some() && lab.stored(&last).await.is_some());
}

fn change_of(job: &Job, expected: Option<u32>, prepared: Prepared) -> Change {
    Change { job: job.clone(), expected, prepared, plan: None, changed: Vec::new() }
}

/// How many versions and audit rows a job has.
async fn records<B: Bench>(lab: &Lab<B>, job: &Job) -> (usize, usize) {
    let versions = lab.store.job_versions(job.id, None, 9).await.unwrap().items.len();
    (versions, lab.store.job_events(job.id, 9).await.unwrap().len())
}

pub async fn changes_together_are_all_made<B: Bench>(lab: &Lab<B>) {
    let (mut changed, mut gone) = (lab.job("changed").await, lab.job("gone").await);
    let first = lab.draft("first").await;
    let mut second = lab.draft("second").await;
    second.definition.depends_on = vec![Dependency { job: first.id, on: DependsOn::Success }];
    second.definition.tags = vec!["new".into()];
    (changed.name, changed.version) = ("renamed".into(), 2);
    (gone.state, gone.version) = (JobState::Deleted, 2);
    let changes = [
        change_of(&first, None, Prepared::Keep),
        change_of(&changed, Some(1), Prepared::Keep),
        change_of(&second, None, Prepared::Keep),
        change_of(&gone, Some(1), Prepared::Drop),
    ];
    assert_eq!(lab.store.define_together(&[], SYSTEM).await.unwrap(), []);
    assert_eq!(lab.store.define_together(&changes, SYSTEM).await.unwrap(), vec![Changed::Done; 4]);
    for job in [&first, &changed, &second] {
        assert_eq!(lab.stored(job).await.as_ref(), Some(job));
    }
    assert_eq!(lab.stored(&gone).await, None);
    let edges = lab.store.dependencies(first.tenant).await.unwrap();
    assert_eq!(edges, [(second.id, first.id)]);
    assert_eq!((records(lab, &first).await, records(lab, &changed).await), ((1, 1), (2, 2)));
}

pub async fn one_refused_change_undoes_all_that_happen_with_it<B: Bench>(lab: &Lab<B>) {
    let (stored, other) = (lab.job("stored").await, lab.job("other").await);
    let first = lab.draft("first").await;
    let changed = Job { version: 2, name: "renamed".into(), ..other.clone() };
    let newer = Job { version: 8, ..stored.clone() };
    let (taken, unknown) = (lab.draft("stored").await, lab.draft("unknown").await);
    for (refused, expected) in [
        (change_of(&taken, None, Prepared::Keep), Changed::NameTaken(stored.id)),
        (change_of(&newer, Some(7), Prepared::Keep), Changed::VersionConflict(1)),
        (change_of(&unknown, Some(3), Prepared::Keep), Changed::NotFound),
    ] {
        let changes = [
            change_of(&first, None, Prepared::Keep),
            refused,
            change_of(&changed, Some(1), Prepared::Keep),
        ];
        let answers = lab.store.define_together(&changes, SYSTEM).await.unwrap();
        assert_eq!(answers, [Changed::Done, expected, Changed::Done]);
        assert_eq!(lab.stored(&first).await, None);
        assert_eq!(lab.stored(&other).await.as_ref(), Some(&other));
        assert_eq!((records(lab, &first).await, records(lab, &other).await), ((0, 0), (1, 1)));
    }
}

/// A job whose old schedule has a time that was not planned cannot lose that schedule yet.
pub async fn a_time_that_comes_undoes_changes_that_happen_together<B: Bench>(lab: &Lab<B>) {
    let mut due = lab.draft("due").await;
    due.next_run = Some(lab.now().await - seconds(1));
    lab.create(&due).await;
    let first = lab.draft("first").await;
    let later = Job { version: 2, next_run: Some(lab.now().await + minutes(9)), ..due.clone() };
    let changes =
        [change_of(&first, None, Prepared::Keep), change_of(&later, Some(1), Prepared::Drop)];
    let answers = lab.store.define_together(&changes, SYSTEM).await.unwrap();
    assert_eq!(answers[1], Changed::VersionConflict(1), "{answers:?}");
    assert_eq!((lab.stored(&first).await, lab.stored(&due).await), (None, Some(due)));
}

pub async fn racing_changes_win_once_for_each_version<B: Bench>(lab: &Lab<B>) {
    let job = lab.job("report").await;
    let handles = [lab.bench.handle().await, lab.bench.handle().await];
    let mut tasks = JoinSet::new();
    for n in 0..8_u8 {
        let store = Arc::clone(&handles[usize::from(n) % 2]);
        let mut job = Job { version: 2, ..job.clone() };
        job.definition.priority = n;
        let change = Change {
            job,
            expected: Some(1),
            prepared: Prepared::Keep,
            plan: None,
            changed: Vec::new(),
        };
        tasks.spawn(async move { store.define(&[change], SYSTEM).await.unwrap().remove(0) });
    }
    let mut answers = tasks.join_all().await;
    answers.retain(|answer| *answer != Changed::VersionConflict(2));
    assert_eq!(answers, [Changed::Done]);
}

pub async fn racing_creations_share_no_name<B: Bench>(lab: &Lab<B>) {
    let handles = [lab.bench.handle().await, lab.bench.handle().await];
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let store = Arc::clone(&handles[n % 2]);
        let change = Change {
            job: lab.draft("report").await,
            expected: None,
            prepared: Prepared::Keep,
            plan: None,
            changed: Vec::new(),
        };
        tasks.spawn(async move { store.define(&[change], SYSTEM).await.unwrap().remove(0) });
    }
    let answers = tasks.join_all().await;
    let winner = lab.store.job_by_name(lab.draft("x").await.tenant, "report").await.unwrap();
    let taken = Changed::NameTaken(winner.unwrap().id);
    assert_eq!(answers.iter().filter(|answer| **answer == Changed::Done).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == taken).count(), 7, "{answers:?}");
}

/// S2.112: which schedules need ticks.
pub async fn due_jobs_are_enabled_and_near<B: Bench>(lab: &Lab<B>) {
    let now = lab.now().await;
    let mut made = Vec::new();
    let times = [Some(3), Some(1), Some(-5), Some(2), Some(90), None];
    for (n, minute) in times.into_iter().enumerate() {
        let mut job = lab.draft(&format!("job {n}")).await;
        job.next_run = minute.map(|minute| now + minutes(minute));
        lab.create(&job).await;
        made.push(job);
    }
    for state in [JobState::Paused, JobState::Disabled, JobState::Completed, JobState::Deleted] {
        let mut job = lab.draft(&format!("{state:?}")).await;
        (job.state, job.next_run) = (state, Some(now));
        lab.create(&job).await;
    }
    let due = lab.store.due_jobs(minutes(60), 10, &Buckets::ALL).await.unwrap();
    assert_eq!(due.jobs, [2, 1, 3, 0].map(|n: usize| made[n].clone()));
    assert!(due.now >= now);
    assert_eq!(
        lab.store.due_jobs(minutes(60), 2, &Buckets::ALL).await.unwrap().jobs,
        due.jobs[..2]
    );
    assert_eq!(
        lab.store.due_jobs(seconds(0), 10, &Buckets::ALL).await.unwrap().jobs,
        due.jobs[..1]
    );
    assert_eq!(lab.store.due_jobs(minutes(60), 0, &Buckets::ALL).await.unwrap().jobs, []);
}

pub async fn due_jobs_are_those_of_some_buckets<B: Bench>(lab: &Lab<B>) {
    let now = lab.now().await;
    let mut made = Vec::new();
    for n in 0..300 {
        let mut job = lab.draft(&format!("job {n}")).await;
        job.next_run = Some(now + seconds(n));
        made.push(job);
    }
    let change = |job: &Job| Change {
        job: job.clone(),
        expected: None,
        prepared: Prepared::Keep,
        plan: None,
        changed: Vec::new(),
    };
    let changes: Vec<Change> = made.iter().map(change).collect();
    assert_eq!(lab.store.define(&changes, SYSTEM).await.unwrap(), vec![Changed::Done; 300]);
    let nodes: Vec<NodeId> = (0..3).map(|_| NodeId(lab.id())).collect();
    let ids = |jobs: &[Job]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
    for node in &nodes {
        let share = Buckets::of_node(*node, &nodes);
        let own: Vec<Job> = made.iter().filter(|job| share.contains(job.id)).cloned().collect();
        assert!((50..150).contains(&own.len()), "{}", own.len());
        let due = lab.store.due_jobs(minutes(60), 300, &share).await.unwrap();
        assert_eq!(ids(&due.jobs), ids(&own), "earliest first, and no others");
        let due = lab.store.due_jobs(minutes(60), 7, &share).await.unwrap();
        assert_eq!(ids(&due.jobs), ids(&own[..7]));
        let early = own.iter().filter(|job| job.next_run.unwrap() < now + seconds(100)).count();
        let due = lab.store.due_jobs(seconds(99), 300, &share).await.unwrap();
        // Time passes meanwhile on a clock that the test cannot stop.
        assert!(ids(&own).starts_with(&ids(&due.jobs)) && due.jobs.len() >= early);
    }
    assert_eq!(lab.store.due_jobs(minutes(60), 300, &Buckets::NONE).await.unwrap().jobs, []);
}

pub async fn jobs_with_a_next_time_are_counted_up_to_a_number<B: Bench>(lab: &Lab<B>) {
    assert!(!lab.store.has_more_jobs_than(0).await.unwrap());
    let now = lab.now().await;
    let states = [JobState::Enabled, JobState::Enabled, JobState::Paused, JobState::Deleted];
    for (n, state) in states.into_iter().enumerate() {
        let mut job = lab.draft(&format!("job {n}")).await;
        (job.state, job.next_run) = (state, Some(now + minutes(60)));
        lab.create(&job).await;
    }
    lab.job("without a time").await;
    for (count, more) in [(0, true), (1, true), (2, false), (u32::MAX, false)] {
        assert_eq!(lab.store.has_more_jobs_than(count).await.unwrap(), more, "{count}");
    }
}
