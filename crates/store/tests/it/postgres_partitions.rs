//! The partitions of history: old rows are dropped with them, rows that have to stay stay, and
//! running work is not disturbed.
//!
//! The tests set the store's clock: it is a function of the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::id::{NodeId, RunId, TenantId};
use domain::job::{Job, Retention};
use domain::run::{Outcome, RunState};
use jiff::{SignedDuration, Timestamp};
use store::postgres::{PostgresOptions, PostgresStore};
use store::{Applied, ClaimRequest, RetentionCutoff, RunFilter, RunQueries, StartFilter, Store};
use tokio_postgres::Client;

use crate::bench::Bench;
use crate::lab::{Lab, ended, ids_of, processes, retried, seconds, want};
use crate::postgres_bench::PostgresBench;

const PATIENCE: Duration = Duration::from_secs(60);

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

/// A store whose partitions all count as large, and a connection beside it.
async fn lab() -> (Lab<PostgresBench>, Client) {
    let bench = PostgresBench::open().await;
    let store = large(&bench).await;
    let client = bench.connect().await;
    client.batch_execute("SET search_path = punctual").await.unwrap();
    (Lab::new(bench, store), client)
}

async fn large(bench: &PostgresBench) -> Arc<PostgresStore> {
    let options = PostgresOptions { pool_size: 4, small_partition: 0 };
    Arc::new(PostgresStore::connect(&bench.url(), options).await.unwrap())
}

/// Moves the store's clock against the server's.
async fn turn_clock(client: &Client, by: SignedDuration) {
    let clock = format!(
        "CREATE OR REPLACE FUNCTION punctual.clock() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
         AS $$ SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint + {} $$",
        by.as_micros()
    );
    client.batch_execute(&clock).await.unwrap();
}

/// The numbers of the partitions, oldest first. They have no gaps, and match the server's.
async fn partitions(client: &Client) -> Vec<i32> {
    let rows = client
        .query("SELECT number, first, until FROM history_ranges ORDER BY first", &[])
        .await
        .unwrap();
    for pair in rows.windows(2) {
        assert_eq!(pair[0].get::<_, uuid::Uuid>(2), pair[1].get::<_, uuid::Uuid>(1));
    }
    assert!(rows[0].get::<_, uuid::Uuid>(1).is_nil());
    assert!(rows[rows.len() - 1].get::<_, uuid::Uuid>(2).is_max());
    let numbers: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    let tables = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'history'::regclass
        AND inhrelid = ANY (SELECT ('history_' || n)::regclass FROM unnest($1::integer[]) AS n)";
    let attached: i64 = client.query_one(tables, &[&numbers]).await.unwrap().get(0);
    assert_eq!(attached, numbers.len() as i64);
    numbers
}

/// Retention of 30 days, and of 90 days for failures.
async fn usual(lab: &Lab<PostgresBench>) -> RetentionCutoff {
    let now = lab.now().await;
    RetentionCutoff {
        job: None,
        before: now - days(30),
        failed_before: now - days(90),
        keep_last: None,
        sample: None,
    }
}

/// Prunes until nothing goes any more.
async fn prune(lab: &Lab<PostgresBench>) {
    let cut = usual(lab).await;
    let pruned = async {
        // A change that finds history in use is made by a later call.
        let mut quiet = 0;
        while quiet < 3 {
            let gone = lab.store.prune(&cut, 999).await.unwrap();
            quiet = if gone == 0 { quiet + 1 } else { 0 };
        }
    };
    tokio::time::timeout(PATIENCE, pruned).await.expect("pruning ends");
}

/// Runs of a job that end now, a minute after their time.
async fn end_now(
    lab: &Lab<PostgresBench>,
    node: NodeId,
    job: &Job,
    outcomes: &[Outcome],
) -> Vec<RunId> {
    let now = lab.now().await;
    let runs: Vec<_> = outcomes.iter().map(|_| lab.run(job, now - seconds(60))).collect();
    lab.submit(&runs).await;
    let mut held = lab.claim(node, want(999)).await;
    held.sort_by_key(|held| runs.iter().position(|run| run.id == held.run.id));
    let done: Vec<_> =
        held.iter().zip(outcomes).map(|(held, outcome)| ended(node, held, *outcome)).collect();
    let exchanged =
        lab.store.complete_and_claim(node, &done, ClaimRequest::default()).await.unwrap();
    assert_eq!(exchanged.applied.len(), runs.len());
    ids_of(&runs)
}

async fn is_there(lab: &Lab<PostgresBench>, run: RunId) -> bool {
    lab.store.run(run).await.unwrap().is_some()
}

/// All that a filter lets through, in pages of a size.
async fn listed(lab: &Lab<PostgresBench>, filter: &RunFilter, limit: u32) -> Vec<RunId> {
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = lab.store.list_runs(filter, before, limit).await.unwrap();
        seen.extend(page.items.iter().map(|run| run.id));
        match page.next {
            Some(next) => before = Some(next),
            None => return seen,
        }
    }
}

/// Weeks, in each of which a run completed, one failed after a retry, and one of a job that
/// keeps its history completed.
struct Weeks {
    completed: Vec<RunId>,
    failed: Vec<RunId>,
    own: Vec<RunId>,
    job: Job,
    /// The tables that the completed ones were in at first.
    tables: Vec<String>,
}

const WEEKS: usize = 14;

async fn weeks(lab: &Lab<PostgresBench>, client: &Client) -> Weeks {
    let job = lab.job("job").await;
    let mut keeper = lab.draft("keeper").await;
    keeper.definition.retention = Retention { days: Some(4_000), ..Retention::default() };
    lab.create(&keeper).await;
    let (mut completed, mut failed, mut own) = (Vec::new(), Vec::new(), Vec::new());
    let mut tables = Vec::new();
    for week in 0..WEEKS as i64 {
        turn_clock(client, days(7 * (week - WEEKS as i64 + 1))).await;
        // The lease of a node is as long as a test.
        let node = lab.node().await;
        prune(lab).await;
        completed.extend(end_now(lab, node, &job, &[Outcome::Completed]).await);
        let of = "SELECT tableoid::regclass::text FROM history WHERE id = $1";
        let last = completed[completed.len() - 1].0;
        tables.push(client.query_one(of, &[&last]).await.unwrap().get(0));
        own.extend(end_now(lab, node, &keeper, &[Outcome::Completed]).await);
        let first = lab.started(node, &job).await;
        lab.finish(node, retried(node, &first, seconds(0))).await;
        let again = lab.claim_one(node).await;
        lab.finish(node, ended(node, &again, Outcome::Failed)).await;
        failed.push(again.run.id);
    }
    prune(lab).await;
    Weeks { completed, failed, own, job, tables }
}

async fn opened_weeks_ago() -> (Lab<PostgresBench>, Client) {
    let (lab, client) = lab().await;
    turn_clock(&client, days(-7 * (WEEKS as i64 - 1))).await;
    prune(&lab).await;
    (lab, client)
}

#[tokio::test]
async fn retention_drops_partitions_and_keeps_what_has_to_stay() {
    let (lab, client) = opened_weeks_ago().await;
    let Weeks { completed, failed, own, tables, .. } = weeks(&lab, &client).await;
    // Five weeks are not over for all of their days; the sixth may have begun before this one.
    let mut there = Vec::new();
    for (week, run) in completed.iter().enumerate() {
        there.push(is_there(&lab, *run).await);
        // Attempts go with their run.
        let attempts = lab.store.attempts(failed[week]).await.unwrap().len();
        let failed_there = is_there(&lab, failed[week]).await;
        assert_eq!(attempts, if failed_there { 2 } else { 0 }, "week {week}");
        let age = 7 * (WEEKS - 1 - week);
        assert_eq!(failed_there, age < 90, "week {week}");
        assert!(is_there(&lab, own[week]).await, "week {week}");
    }
    assert!(there[WEEKS - 5..].iter().all(|there| *there), "{there:?}");
    assert!(!there[..WEEKS - 6].iter().any(|there| *there), "{there:?}");
    // The rest of the old weeks is one partition; there are five or six weeks, the next one, and
    // the later ones.
    let numbers = partitions(&client).await;
    assert!(numbers.len() <= 10, "{numbers:?}");
    for (table, there) in tables.iter().zip(&there) {
        let look = "SELECT to_regclass($1) IS NOT NULL";
        assert_eq!(client.query_one(look, &[table]).await.unwrap().get::<_, bool>(0), *there);
    }
    lab.close().await;
}

/// Rows of a large partition wait until all of them are old, those of a small one do not.
#[tokio::test]
async fn a_large_partition_waits_until_it_is_old_as_a_whole() {
    let (lab, client) = opened_weeks_ago().await;
    let (node, job) = (lab.node().await, lab.job("job").await);
    let now = lab.now().await;
    // Two days after the beginning of a week.
    let week = now.as_second().div_euclid(7 * 86_400) * 7 * 86_400;
    let start = Timestamp::from_second(week).unwrap() + days(9);
    turn_clock(&client, days(-7 * (WEEKS as i64 - 1)) + start.duration_since(now)).await;
    prune(&lab).await;
    let run = end_now(&lab, node, &job, &[Outcome::Completed]).await[0];
    let at = |day: i64| days(-7 * (WEEKS as i64 - 1)) + start.duration_since(now) + days(day);
    turn_clock(&client, at(31)).await;
    let cut = usual(&lab).await;
    assert_eq!(lab.store.prune(&cut, 999).await.unwrap(), 0);
    assert!(is_there(&lab, run).await, "its partition is not old");
    let small = PostgresStore::connect(&lab.bench.url(), PostgresOptions::default()).await.unwrap();
    assert_eq!(small.prune(&cut, 999).await.unwrap(), 1);
    assert!(!is_there(&lab, run).await, "it is small");
    lab.close().await;
}

#[tokio::test]
async fn pages_over_several_partitions_are_complete_and_in_order() {
    let (lab, client) = opened_weeks_ago().await;
    let Weeks { completed, failed, own, job, .. } = weeks(&lab, &client).await;
    assert!(partitions(&client).await.len() > 5);
    let mut there = Vec::new();
    for run in completed.iter().chain(&failed).chain(&own) {
        if is_there(&lab, *run).await {
            there.push(*run);
        }
    }
    there.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    let of_job: Vec<RunId> = there.iter().copied().filter(|run| !own.contains(run)).collect();
    let only = |runs: &[RunId]| -> Vec<RunId> {
        there.iter().copied().filter(|run| runs.contains(run)).collect()
    };
    let in_state = |outcome| RunFilter {
        states: vec![RunState::Ended(outcome)],
        ..RunFilter::of_tenant(TenantId::DEFAULT)
    };
    for (what, filter, expected) in [
        ("tenant", RunFilter::of_tenant(TenantId::DEFAULT), there.clone()),
        ("job", RunFilter::of_job(job.id), of_job),
        ("failed", in_state(Outcome::Failed), only(&failed)),
        ("cancelled", in_state(Outcome::Cancelled), Vec::new()),
    ] {
        for limit in [1, 3, 7, 999] {
            assert_eq!(listed(&lab, &filter, limit).await, expected, "{what} by {limit}");
        }
    }
    // The same by when they began, and in the order in which they ended.
    let mut starts = Vec::new();
    let mut after = None;
    let filter = StartFilter::of_job(job.id);
    loop {
        let page = lab.store.latest_starts(&filter, after, 2).await.unwrap();
        starts.extend(page.items.iter().map(|run| run.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    starts.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    let mut of_job: Vec<RunId> = only(&completed);
    of_job.extend(only(&failed));
    of_job.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    assert_eq!(starts, of_job);
    lab.close().await;
}

/// A run that ended does not run again, whatever partition it is in.
#[tokio::test]
async fn a_run_of_an_old_partition_is_not_recorded_again() {
    let (lab, client) = opened_weeks_ago().await;
    let Weeks { failed, own, job, .. } = weeks(&lab, &client).await;
    let node = lab.node().await;
    let last = WEEKS - 1;
    let known = [own[0], own[last / 2], own[last], failed[last - 9], failed[last]];
    let runs: Vec<_> = known
        .iter()
        .map(|id| store_run(&lab, &job, *id))
        .chain([lab.run(&job, lab.now().await)])
        .collect();
    let submitted = lab.store.submit(&runs, None).await.unwrap();
    assert_eq!(submitted.accepted, [false, false, false, false, false, true]);
    // One at a time, and by a node that would take them.
    for run in &runs[..5] {
        let claim = Some(store::ClaimFor { node, max: processes(9) });
        let again = lab.store.submit(std::slice::from_ref(run), claim).await.unwrap();
        assert_eq!((again.accepted, again.claimed.len()), (vec![false], 0));
    }
    assert_eq!(lab.claim(node, want(9)).await.len(), 1);
    // The server does not let it happen either.
    let row = "INSERT INTO history SELECT * FROM history WHERE id = $1";
    for run in known {
        let refused = client.execute(row, &[&run.0]).await.unwrap_err();
        assert_eq!(refused.code(), Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION));
    }
    lab.close().await;
}

fn store_run(lab: &Lab<PostgresBench>, job: &Job, id: RunId) -> domain::run::NewRun {
    domain::run::NewRun { id, ..lab.run(job, id.time()) }
}

/// Clocks jump, no node runs for months, and runs have times that no partition was made for.
#[tokio::test]
async fn an_end_has_a_place_whatever_the_time_is() {
    let (lab, client) = opened_weeks_ago().await;
    let job = lab.job("job").await;
    let mut runs = Vec::new();
    for shift in [0, 9_000, -9_000, 40, 41, -20_000, 3] {
        turn_clock(&client, days(shift)).await;
        let node = lab.node().await;
        // First without partitions for this time, then with them.
        for _ in 0..2 {
            runs.extend(end_now(&lab, node, &job, &[Outcome::Completed]).await);
            let cut = RetentionCutoff {
                before: Timestamp::MIN,
                failed_before: Timestamp::MIN,
                ..usual(&lab).await
            };
            lab.store.prune(&cut, 9).await.unwrap();
            partitions(&client).await;
        }
        let store = large(&lab.bench).await;
        drop(store);
        partitions(&client).await;
    }
    for year in [
        "1970-01-01T00:00:00Z",
        "1999-12-31T23:59:59Z",
        "2026-01-01T00:00:00Z",
        "2199-01-01T00:00:00Z",
    ] {
        let node = lab.node().await;
        let at: Timestamp = year.parse().unwrap();
        let run = domain::run::NewRun { due_at: lab.ago(60).await, ..lab.run(&job, at) };
        lab.submit(std::slice::from_ref(&run)).await;
        let held = lab.claim_one(node).await;
        let done = lab.finish(node, ended(node, &held, Outcome::Completed)).await;
        assert_eq!(done, Applied::Ended(Outcome::Completed), "{year}");
        runs.push(run.id);
    }
    runs.sort_unstable_by_key(|run| std::cmp::Reverse(*run));
    for limit in [3, 999] {
        assert_eq!(listed(&lab, &RunFilter::of_job(job.id), limit).await, runs);
    }
    lab.close().await;
}

/// A reader that holds history for long delays new partitions, and neither the pruner nor an end.
#[tokio::test]
async fn a_long_reader_delays_partitions_and_nothing_else() {
    let (lab, client) = opened_weeks_ago().await;
    let job = lab.job("job").await;
    let before = partitions(&client).await;
    let reader = lab.bench.connect().await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM punctual.history").await.unwrap();
    turn_clock(&client, days(0)).await;
    let node = lab.node().await;
    let cut = usual(&lab).await;
    for _ in 0..3 {
        lab.store.prune(&cut, 9).await.unwrap();
        end_now(&lab, node, &job, &[Outcome::Completed]).await;
    }
    assert_eq!(partitions(&client).await, before);
    reader.batch_execute("COMMIT").await.unwrap();
    prune(&lab).await;
    assert_ne!(partitions(&client).await, before);
    lab.close().await;
}

/// Several nodes prune while runs of all times end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_prune_at_once_while_runs_end() {
    let (lab, client) = opened_weeks_ago().await;
    let Weeks { own, .. } = weeks(&lab, &client).await;
    let (node, job) = (lab.node().await, lab.job("new").await);
    let done = Arc::new(AtomicBool::new(false));
    let mut pruners = tokio::task::JoinSet::new();
    for shift in 0..3 {
        let store = large(&lab.bench).await;
        let done = Arc::clone(&done);
        let now = lab.now().await;
        pruners.spawn(async move {
            let mut calls = 0_u32;
            while !done.load(Ordering::SeqCst) || calls < 3 {
                let before = now - days(10 + 7 * shift);
                let cut = RetentionCutoff {
                    job: None,
                    before,
                    failed_before: before,
                    keep_last: None,
                    sample: None,
                };
                store.prune(&cut, 9).await.unwrap();
                calls += 1;
            }
        });
    }
    let mut runs = Vec::new();
    for round in 0..40 {
        let now = lab.now().await;
        let ago = days(round * 3);
        let due: Vec<_> = (0..5)
            .map(|_| domain::run::NewRun { due_at: now - seconds(60), ..lab.run(&job, now - ago) })
            .collect();
        lab.submit(&due).await;
        let held = lab.claim(node, want(99)).await;
        let ends: Vec<_> = held.iter().map(|held| ended(node, held, Outcome::Completed)).collect();
        let applied = lab
            .store
            .complete_and_claim(node, &ends, ClaimRequest::default())
            .await
            .unwrap()
            .applied;
        assert_eq!(applied, vec![Applied::Ended(Outcome::Completed); 5]);
        runs.extend(ids_of(&due));
    }
    done.store(true, Ordering::SeqCst);
    while let Some(pruned) = pruners.join_next().await {
        pruned.unwrap();
    }
    // They ended a moment ago, whatever their times are, and those others have a rule.
    for run in runs.iter().chain(&own) {
        assert!(is_there(&lab, *run).await, "{run}");
    }
    partitions(&client).await;
    lab.close().await;
}
