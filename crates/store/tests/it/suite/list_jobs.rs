//! Lists of jobs: by state, tag, beginning of the name and kind.

use domain::action::{Action, SqlAction};
use domain::id::TenantId;
use domain::job::{JobState, When};
use jiff::SignedDuration;
use store::{JobFilter, Prepared, Store};

use crate::bench::Bench;
use crate::lab::{Lab, tenant};

async fn list<B: Bench>(lab: &Lab<B>, filter: JobFilter) -> Vec<String> {
    let mut all: Option<Vec<String>> = None;
    for limit in [999, 1, 2, 3] {
        let mut seen = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = lab.store.list_jobs(&filter, after.as_deref(), limit).await.unwrap();
            assert!(page.items.len() <= limit as usize);
            seen.extend(page.items.into_iter().map(|job| job.name));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(all.get_or_insert_with(|| seen.clone()), &seen, "in pages of {limit}");
    }
    all.unwrap_or_default()
}

fn all() -> JobFilter {
    JobFilter::of_tenant(TenantId::DEFAULT)
}

fn tagged(tag: &str) -> JobFilter {
    JobFilter { tag: Some(tag.into()), ..all() }
}

pub async fn jobs_are_found_by_a_part_of_the_name_and_by_their_next_time<B: Bench>(lab: &Lab<B>) {
    for (n, name) in ["Nightly-Ledger", "ledger", "load"].into_iter().enumerate() {
        let mut job = lab.draft(name).await;
        job.next_run = (n > 0).then(|| job.created_at + SignedDuration::from_hours(n as i64));
        lab.create(&job).await;
    }
    let containing = |part: &str| JobFilter { contains: Some(part.into()), ..all() };
    assert_eq!(list(lab, containing("LEDGER")).await, ["Nightly-Ledger", "ledger"]);
    assert_eq!(list(lab, containing("l")).await, ["Nightly-Ledger", "ledger", "load"]);
    assert_eq!(list(lab, containing("%")).await, [] as [&str; 0]);
    let next = lab.store.list_jobs(&all(), None, 9).await.unwrap().items[1].next_run.unwrap();
    let due = |end| JobFilter { due_before: Some(end), ..all() };
    assert_eq!(list(lab, due(next)).await, [] as [&str; 0], "the end is not included");
    assert_eq!(list(lab, due(next + SignedDuration::from_secs(1))).await, ["ledger"]);
    assert_eq!(list(lab, due(next + SignedDuration::from_hours(9))).await, ["ledger", "load"]);
}

pub async fn jobs_are_found_by_state_and_kind<B: Bench>(lab: &Lab<B>) {
    for (n, state) in [JobState::Enabled, JobState::Paused, JobState::Disabled, JobState::Paused]
        .into_iter()
        .enumerate()
    {
        let mut job = lab.draft(&format!("job {n}")).await;
        job.state = state;
        if n > 1 {
            job.definition.when = When::At { at: job.created_at };
        }
        if n % 2 == 1 {
            job.definition.action =
                Action::Sql(SqlAction { sql: "SELECT 1".into(), database: None });
        }
        lab.create(&job).await;
    }
    let states = |states: &[JobState]| JobFilter { states: states.to_vec(), ..all() };
    assert_eq!(list(lab, states(&[JobState::Paused])).await, ["job 1", "job 3"]);
    let on_or_off = states(&[JobState::Disabled, JobState::Enabled]);
    assert_eq!(list(lab, on_or_off).await, ["job 0", "job 2"]);
    assert_eq!(list(lab, states(&[JobState::Completed])).await, [] as [&str; 0]);
    let at = JobFilter { schedule: Some("AT".into()), ..all() };
    assert_eq!(list(lab, at.clone()).await, ["job 2", "job 3"]);
    let sql = JobFilter { action: Some("SQL".into()), ..all() };
    assert_eq!(list(lab, sql).await, ["job 1", "job 3"]);
    let both = JobFilter { action: Some("SQL".into()), ..at };
    assert_eq!(list(lab, both).await, ["job 3"]);
}

pub async fn jobs_are_found_by_the_beginning_of_their_names<B: Bench>(lab: &Lab<B>) {
    for name in ["a", "b", "b/1", "b/2", "b/2/x", "b0", "c", "b/\u{10ffff}z"] {
        lab.job(name).await;
    }
    let begins = |prefix: &str| JobFilter { prefix: Some(prefix.into()), ..all() };
    assert_eq!(list(lab, begins("b/")).await, ["b/1", "b/2", "b/2/x", "b/\u{10ffff}z"]);
    assert_eq!(list(lab, begins("b/2")).await, ["b/2", "b/2/x"]);
    assert_eq!(list(lab, begins("d")).await, [] as [&str; 0]);
    assert_eq!(list(lab, begins("")).await.len(), 8);
    let beyond = lab.store.list_jobs(&begins("b/"), Some("c"), 9).await.unwrap();
    assert_eq!((beyond.items.len(), beyond.next), (0, None));
}

pub async fn jobs_are_found_by_tag<B: Bench>(lab: &Lab<B>) {
    for (name, tags) in [("x", "red blue red"), ("y", "blue"), ("a", "red"), ("z", "")] {
        let mut job = lab.draft(name).await;
        job.definition.tags = tags.split_whitespace().map(str::to_owned).collect();
        lab.create(&job).await;
    }
    let mut elsewhere = lab.draft("b").await;
    elsewhere.tenant = tenant(9);
    elsewhere.definition.tags = vec!["red".into()];
    lab.create(&elsewhere).await;
    assert_eq!(list(lab, tagged("red")).await, ["a", "x"]);
    assert_eq!(list(lab, tagged("blue")).await, ["x", "y"]);
    assert_eq!(list(lab, tagged("green")).await, [] as [&str; 0]);
    let begins = JobFilter { prefix: Some("x".into()), ..tagged("red") };
    assert_eq!(list(lab, begins).await, ["x"]);
}

/// Tags follow the job: its changes, its name, its end.
pub async fn tags_follow_the_definition<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.draft("old").await;
    job.definition.tags = vec!["red".into(), "blue".into()];
    lab.create(&job).await;
    job.name = "new".into();
    job.definition.tags = vec!["red".into(), "green".into()];
    lab.update(&mut job, Prepared::Keep).await;
    assert_eq!(list(lab, tagged("red")).await, ["new"]);
    assert_eq!(list(lab, tagged("blue")).await, [] as [&str; 0]);
    // A change that is refused leaves them alone.
    let mut stale = job.clone();
    stale.definition.tags = vec!["blue".into()];
    lab.change(&stale, Some(1), Prepared::Keep).await;
    assert_eq!(list(lab, tagged("blue")).await, [] as [&str; 0]);
    assert_eq!(list(lab, tagged("green")).await, ["new"]);
    let mut heir = lab.draft("old").await;
    heir.definition.tags = vec!["red".into()];
    lab.create(&heir).await;
    assert_eq!(list(lab, tagged("red")).await, ["new", "old"]);
    job.state = JobState::Deleted;
    lab.update(&mut job, Prepared::Drop).await;
    assert_eq!(list(lab, tagged("red")).await, ["old"]);
}

pub async fn jobs_are_found_by_name<B: Bench>(lab: &Lab<B>) {
    for name in ["a", "b", "c"] {
        lab.job(name).await;
    }
    let asked = ["c", "nobody", "a"];
    let mut found = lab.store.jobs_by_name(TenantId::DEFAULT, &asked).await.unwrap();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(found.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(lab.store.jobs_by_name(tenant(9), &asked).await.unwrap(), []);
    assert_eq!(lab.store.jobs_by_name(TenantId::DEFAULT, &[]).await.unwrap(), []);
}
