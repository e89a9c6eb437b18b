//! Shards and split runs: three nodes, sixteen shards, and their faults.

use std::collections::{BTreeMap, BTreeSet};

use domain::action::{Action, SqlAction};
use domain::id::{NodeId, RunId};
use domain::job::{Definition, Job, Overlap, RetryPolicy, When};
use domain::object::ObjectKind;
use domain::partition::{Parameters, Partition, Progress, Rows};
use domain::run::{AttemptResult, Outcome};
use domain::shard::ShardBody;
use engine::{Deletion, NodeControl, NodeInfo, Settings, Started, Trigger};
use jiff::SignedDuration;
use serde_json::json;
use store::{Cluster, SYSTEM, Shards, Store};

use crate::test_cluster::{TestCluster, done, failed};
use crate::world::{Steps, cron};

fn partitioned(partition: Partition) -> Definition {
    Definition { partition: Some(partition), ..quick() }
}

/// Tried again after a second, three times.
fn quick() -> Definition {
    let backoff = SignedDuration::from_secs(1);
    let retry = RetryPolicy { backoff, multiplier: 1.0, ..RetryPolicy::default() };
    Definition { retry, ..Definition::default() }
}

fn name(started: &Started) -> &str {
    started.shard.as_ref().map_or("", |shard| shard.name.as_str())
}

async fn triggered(cluster: &TestCluster, job: &Job, parameters: Option<&str>) -> RunId {
    let trigger = Trigger { parameters: parameters.map(str::to_owned), ..Trigger::default() };
    let run = cluster.nodes[0].triggered(job.id, trigger).await.unwrap();
    cluster.nodes[0].submit(std::slice::from_ref(&run)).await.unwrap();
    run.id
}

async fn state(cluster: &TestCluster, run: RunId) -> String {
    cluster.world.store.run(run).await.unwrap().unwrap().state.to_string()
}

async fn progress(cluster: &TestCluster, run: RunId) -> Progress {
    Progress::of(&cluster.world.store.parts(&[run]).await.unwrap())
}

#[tokio::test]
async fn s0_144_a_one_time_job_runs_within_ten_seconds() {
    let mut cluster = TestCluster::create(3, 16).await;
    let at = cluster.world.store.now().await.unwrap() + SignedDuration::from_secs(5);
    let job =
        cluster.nodes[1].create("once", Definition { when: When::At { at }, ..quick() }).await;
    for _ in 0..10 {
        cluster.second(&mut done).await;
    }
    let last = cluster.job_runs(job.id).await.pop().expect("it has run");
    assert_eq!(last.state.to_string(), "COMPLETED");
    assert!(last.started_at.unwrap() >= at);
}

#[tokio::test]
async fn s0_145_a_job_with_three_retries_is_tried_four_times() {
    let mut cluster = TestCluster::create(3, 16).await;
    let job = cluster.nodes[0].create("fails", quick()).await;
    let run = triggered(&cluster, &job, None).await;
    cluster.until_ended(run, 60, |_| failed()).await;
    assert_eq!(state(&cluster, run).await, "FAILED");
    assert_eq!(cluster.world.store.attempts(run).await.unwrap().len(), 4);
}

#[tokio::test]
async fn s0_146_a_job_of_all_shards_has_a_run_on_each_of_sixteen() {
    let mut cluster = TestCluster::create(3, 16).await;
    let job = cluster.nodes[2].create("analyze", partitioned(Partition::AllShards)).await;
    let run = triggered(&cluster, &job, None).await;
    cluster.until_ended(run, 30, done).await;
    assert_eq!(state(&cluster, run).await, "COMPLETED");
    let parts = cluster.job_parts(job.id).await;
    let shards: BTreeSet<&str> = parts.iter().map(|part| part.shard.as_str()).collect();
    assert_eq!((parts.len(), shards.len()), (16, 16));
    assert!(parts.iter().all(|part| part.state.to_string() == "COMPLETED"));
    // Each at its owner.
    let owners = cluster.owners().await;
    assert_eq!(cluster.log.len(), 16);
    for (node, shard, _) in &cluster.log {
        assert_eq!(owners[shard].node, Some(*node), "{shard}");
    }
    let whole = cluster.world.store.run(run).await.unwrap().unwrap();
    assert_eq!(whole.message.as_deref(), Some("16 of 16 shards done"));
    let counts = r#"{"parts":16,"completed":16,"failed":0}"#;
    assert_eq!(whole.result.as_deref(), Some(counts));
}

#[tokio::test]
async fn the_parts_of_a_deleted_job_do_its_work() {
    let mut cluster = TestCluster::create(3, 16).await;
    let job = cluster.nodes[0].create("analyze", partitioned(Partition::AllShards)).await;
    let run = triggered(&cluster, &job, None).await;
    // One node divides the run and begins its own parts; the others begin theirs after the
    // deletion.
    let own = cluster.nodes[0].work().await;
    cluster.nodes[0].delete_job(job.id, Deletion::default(), SYSTEM).await.unwrap();
    for started in &own {
        assert!(cluster.nodes[0].complete(started.run.grant, AttemptResult::completed()));
    }
    let mut names = BTreeSet::new();
    cluster
        .until_ended(run, 30, |started| {
            names.insert(started.job.name.clone());
            done(started)
        })
        .await;
    assert_eq!(names, BTreeSet::from(["analyze".to_owned()]));
    assert_eq!(state(&cluster, run).await, "COMPLETED");
}

#[tokio::test]
async fn s2_115_the_parts_of_a_run_are_carried_out_at_the_same_time() {
    let cluster = TestCluster::create(3, 16).await;
    let node = &cluster.nodes[0];
    let job = node.create("analyze", partitioned(Partition::AllShards)).await;
    let run = triggered(&cluster, &job, None).await;
    node.work().await;
    let mut started = Vec::new();
    for node in &cluster.nodes {
        node.attend().await.unwrap();
        started.extend(node.work().await.into_iter().map(|run| (node, run)));
    }
    assert_eq!(started.len(), 16, "all of them have begun, none has ended");
    assert_eq!(state(&cluster, run).await, "RUNNING");
    for (n, (node, part)) in started.iter().enumerate() {
        assert!(node.complete(part.run.grant, AttemptResult::completed()));
        node.flush().await;
        let expected = Progress { parts: 16, completed: n + 1, failed: 0 };
        assert_eq!(progress(&cluster, run).await, expected);
    }
}

#[tokio::test]
async fn a_split_run_takes_no_slot_and_no_place_of_its_tenant() {
    // One slot a node, and one run at a time for the tenant: the run itself must not have it.
    let set = |settings: &mut Settings| {
        settings.max_concurrent_jobs = 1;
        settings.tenant_max_concurrent = Some(1);
    };
    let mut cluster = TestCluster::with(2, 6, set).await;
    let job = cluster.nodes[0].create("analyze", partitioned(Partition::AllShards)).await;
    let run = triggered(&cluster, &job, None).await;
    cluster.until_ended(run, 60, done).await;
    assert_eq!(state(&cluster, run).await, "COMPLETED");
    assert_eq!(cluster.log.len(), 6);
}

#[tokio::test]
async fn shards_move_when_a_node_is_lost_drained_or_comes() {
    let mut cluster = TestCluster::create(3, 16).await;
    let before = cluster.owners().await;
    assert!(before.values().all(|owner| owner.node.is_some() && owner.fence == 1));
    let lost = cluster.nodes[2].id();
    let orphans = cluster.owned_by(lost).await;
    assert!(!orphans.is_empty());
    cluster.silence(2);
    for _ in 0..15 {
        cluster.second(&mut done).await;
    }
    let after = cluster.owners().await;
    for (shard, owner) in &after {
        if orphans.contains(shard) {
            assert_ne!(owner.node, Some(lost));
            assert_eq!(owner.fence, 2, "{shard} has moved once");
        } else {
            assert_eq!(owner, &before[shard], "{shard} has not moved");
        }
    }
    // An administrator drains the second one: the first has everything.
    let drained = cluster.nodes[1].id();
    cluster.world.store.steer(drained, NodeControl::Drain, SYSTEM).await.unwrap();
    cluster.second(&mut done).await;
    assert_eq!(cluster.owned_by(cluster.nodes[0].id()).await.len(), 16);
    // It is resumed, and a node of the name of the lost one comes: everything is as it was.
    cluster.world.store.steer(drained, NodeControl::Resume, SYSTEM).await.unwrap();
    let settings = Settings { info: NodeInfo::named("node-2"), ..Settings::default() };
    let back = cluster.world.node_with(settings).await;
    cluster.nodes.push(back);
    cluster.second(&mut done).await;
    assert_eq!(cluster.owned_by(cluster.nodes[3].id()).await, orphans);
}

#[tokio::test]
async fn s2_117_a_node_is_lost_in_the_middle_and_every_shard_is_done_all_the_same() {
    let mut cluster = TestCluster::create(3, 16).await;
    let job = cluster.nodes[0].create("analyze", partitioned(Partition::AllShards)).await;
    let run = triggered(&cluster, &job, None).await;
    cluster.nodes[0].work().await;
    // The third claims its child runs and stops, and loses the memory of them.
    cluster.nodes[2].attend().await.unwrap();
    let taken = cluster.nodes[2].work().await;
    assert!(!taken.is_empty());
    cluster.silence(2);
    cluster.until_ended(run, 60, done).await;
    assert_eq!(state(&cluster, run).await, "COMPLETED");
    let shards: BTreeSet<&String> = cluster.log.iter().map(|(_, shard, _)| shard).collect();
    assert_eq!(shards.len(), 16);
    for part in &taken {
        let view = cluster.world.store.run(part.run.run.id).await.unwrap().unwrap();
        assert_eq!((view.state.to_string().as_str(), view.lost), ("COMPLETED", 1));
    }
    // Its late reports about them are refused.
    for part in taken {
        cluster.nodes[2].complete(part.run.grant, failed());
    }
    cluster.nodes[2].flush().await;
    assert_eq!(progress(&cluster, run).await.completed, 16);
}

#[tokio::test]
async fn s2_118_the_node_that_split_a_run_may_die() {
    let mut cluster = TestCluster::create(3, 16).await;
    let job = cluster.nodes[1].create("analyze", partitioned(Partition::AllShards)).await;
    let run = cluster.nodes[0].triggered(job.id, Trigger::default()).await.unwrap();
    cluster.nodes[0].submit(std::slice::from_ref(&run)).await.unwrap();
    // It splits the run and stops before the wait of the run is recorded.
    cluster.nodes[0].start_due().await.unwrap();
    assert_eq!(progress(&cluster, run.id).await.parts, 16);
    cluster.silence(0);
    cluster.until_ended(run.id, 60, done).await;
    let whole = cluster.world.store.run(run.id).await.unwrap().unwrap();
    assert_eq!((whole.state.to_string().as_str(), whole.lost), ("COMPLETED", 0));
    assert_eq!(cluster.job_parts(job.id).await.len(), 16, "it was split once");
}

#[tokio::test]
async fn only_the_shards_that_failed_are_done_again() {
    let mut cluster = TestCluster::create(3, 16).await;
    let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    let definition = Definition { retry: once, ..partitioned(Partition::AllShards) };
    let job = cluster.nodes[0].create("analyze", definition).await;
    let run = triggered(&cluster, &job, None).await;
    let bad = ["shard_003", "shard_007"];
    let fails = |started: &Started| {
        if bad.contains(&name(started)) { failed() } else { AttemptResult::completed() }
    };
    cluster.until_ended(run, 30, fails).await;
    let whole = cluster.world.store.run(run).await.unwrap().unwrap();
    assert_eq!(whole.state.to_string(), "FAILED");
    assert_eq!(whole.reason.as_deref(), Some("PARTS_FAILED"));
    let text = "14 of 16 shards done; shard_003 FAILED, shard_007 FAILED";
    assert_eq!(whole.reason_text.as_deref(), Some(text));
    assert!(whole.dead_letter, "the run is the dead letter");
    let parts = cluster.job_parts(job.id).await;
    assert!(parts.iter().all(|part| !part.dead_letter), "its parts are none");

    cluster.log.clear();
    let again = cluster.nodes[0].redrive_split(run, None).await.unwrap().unwrap().id;
    cluster.until_ended(again, 30, done).await;
    assert_eq!(state(&cluster, again).await, "COMPLETED");
    let shards: BTreeSet<&str> = cluster.log.iter().map(|(_, shard, _)| shard.as_str()).collect();
    assert_eq!(shards, BTreeSet::from(bad));
    let again = cluster.world.store.run(again).await.unwrap().unwrap();
    assert_eq!(again.message.as_deref(), Some("2 of 2 shards done"));
    assert_eq!(again.scheduled_for, whole.scheduled_for);
}

#[tokio::test]
async fn a_shard_that_kills_its_nodes_ends_and_the_others_are_done() {
    let mut cluster = TestCluster::create(4, 4).await;
    let job = cluster.nodes[0].create("analyze", partitioned(Partition::AllShards)).await;
    let run = triggered(&cluster, &job, None).await;
    cluster.nodes[0].work().await;
    let poison = cluster.shards[1].0.clone();
    for _ in 0..3 {
        // The owner of the shard begins its child run and stops without a report.
        let owner = cluster.owners().await[&poison].node.unwrap();
        let victim = cluster.nodes.iter().position(|node| node.id() == owner).unwrap();
        cluster.nodes[victim].attend().await.unwrap();
        let started = cluster.nodes[victim].work().await;
        assert!(started.iter().any(|started| name(started) == poison));
        for other in started.iter().filter(|started| name(started) != poison) {
            cluster.nodes[victim].complete(other.run.grant, AttemptResult::completed());
        }
        cluster.nodes[victim].flush().await;
        cluster.silence(victim);
        // The others declare it dead and find the next owner, and do nothing else meanwhile.
        for _ in 0..12 {
            cluster.idle_second().await;
        }
    }
    cluster.until_ended(run, 30, done).await;
    let whole = cluster.world.store.run(run).await.unwrap().unwrap();
    assert_eq!(whole.state.to_string(), "FAILED");
    let text = "3 of 4 shards done; shard_002 FAILED";
    assert_eq!(whole.reason_text.as_deref(), Some(text));
}

#[tokio::test]
async fn who_cancels_a_run_cancels_its_parts() {
    let mut cluster = TestCluster::create(2, 8).await;
    let job = cluster.nodes[0].create("analyze", partitioned(Partition::AllShards)).await;
    let run = triggered(&cluster, &job, None).await;
    cluster.nodes[0].work().await;
    cluster.nodes[0].attend().await.unwrap();
    let held = cluster.nodes[0].work().await;
    assert!(!held.is_empty() && held.len() < 8);
    cluster.nodes[0].cancel_run(run, "enough", SYSTEM).await.unwrap();
    assert_eq!(state(&cluster, run).await, "RUNNING", "some of its parts go on");
    let told = cluster.nodes[0].renew().await.unwrap().unwrap();
    assert_eq!(told.len(), held.len());
    for part in &held {
        assert!(told.contains(&part.run.run.id));
        cluster.nodes[0].complete(part.run.grant, failed());
    }
    cluster.nodes[0].flush().await;
    cluster.until_ended(run, 5, |_| panic!("nothing starts")).await;
    assert_eq!(state(&cluster, run).await, "CANCELLED");
    let outcomes = cluster.world.store.parts(&[run]).await.unwrap();
    assert!(outcomes.iter().all(|part| part.outcome == Some(Outcome::Cancelled)));
}

/// The job has no guard, so only its split makes a node read the store.
#[tokio::test]
async fn a_run_that_is_cancelled_before_it_is_split_ends() {
    let mut cluster = TestCluster::create(1, 4).await;
    let all = partitioned(Partition::AllShards);
    let free = Definition { overlap: Overlap::Allow, ..all };
    let job = cluster.nodes[0].create("analyze", free).await;
    let run = triggered(&cluster, &job, None).await;
    assert_eq!(state(&cluster, run).await, "RUNNING", "it is held, and has not begun");
    cluster.nodes[0].cancel_run(run, "enough", SYSTEM).await.unwrap();
    cluster.until_ended(run, 5, |_| panic!("nothing starts")).await;
    assert_eq!(state(&cluster, run).await, "CANCELLED");
    assert_eq!(progress(&cluster, run).await, Progress::default(), "it was not split");
}

#[tokio::test]
async fn s2_116_every_tick_has_one_outcome_and_parts_do_not_overlap_with_it() {
    let mut cluster = TestCluster::create(3, 16).await;
    let definition = Definition {
        partition: Some(Partition::AllShards),
        overlap: Overlap::Skip,
        ..cron("* * * * *")
    };
    let job = cluster.nodes[0].create("analyze", definition).await;
    for _ in 0..185 {
        cluster.second(&mut done).await;
    }
    let runs = cluster.job_runs(job.id).await;
    let ended = runs.iter().filter(|run| run.finished_at.is_some());
    let states: Vec<String> = ended.map(|run| run.state.to_string()).collect();
    assert_eq!(states, ["COMPLETED"; 4]);
    assert_eq!(cluster.job_parts(job.id).await.len(), 64);
}

#[tokio::test]
async fn a_key_goes_to_its_shard_with_the_values_of_the_run() {
    let mut cluster = TestCluster::create(3, 16).await;
    let rule = Partition::Dynamic { expression: "SHARD_KEY(customer_id)".into() };
    let values = BTreeMap::from([("customer_id".to_owned(), json!(42))]);
    let parameters = Parameters { values, from: None };
    let action = Action::Sql(SqlAction { sql: "SELECT :customer_id".into(), database: None });
    let definition = Definition { parameters, action, ..partitioned(rule) };
    let job = cluster.nodes[0].create("reports", definition).await;
    let mut places = BTreeMap::new();
    for given in [None, Some(r#"{"customer_id":7}"#), Some(r#"{"customer_id":42}"#)] {
        let run = triggered(&cluster, &job, given).await;
        let mut seen = Vec::new();
        cluster
            .until_ended(run, 30, |started| {
                seen.push((name(started).to_owned(), started.run.run.parameters.clone().unwrap()));
                AttemptResult::completed()
            })
            .await;
        assert_eq!(seen.len(), 1);
        let (shard, values) = seen.remove(0);
        let before = places.insert(values, shard.clone());
        assert!(before.is_none_or(|before| before == shard), "a key stays on its shard");
    }
    assert_eq!(
        places.keys().collect::<Vec<_>>(),
        [r#"{"customer_id":42}"#, r#"{"customer_id":7}"#]
    );
}

#[tokio::test]
async fn statements_of_a_shard_work_in_its_database() {
    let mut cluster = TestCluster::create(1, 0).await;
    let sales = ShardBody { database: Some("sales_eu".into()), ..ShardBody::default() };
    cluster.add_shard(1, sales).await;
    cluster.add_shard(2, ShardBody::default()).await;
    let action = Action::Sql(SqlAction { sql: "SELECT 1".into(), database: Some("main".into()) });
    let definition = Definition { action, ..partitioned(Partition::AllShards) };
    let job = cluster.nodes[0].create("analyze", definition).await;
    let run = triggered(&cluster, &job, None).await;
    let mut databases = BTreeMap::new();
    cluster
        .until_ended(run, 30, |started| {
            let Action::Sql(action) = &started.job.definition.action else { panic!("not SQL") };
            databases.insert(name(started).to_owned(), action.database.clone().unwrap());
            AttemptResult::completed()
        })
        .await;
    let expected = [("shard_001", "sales_eu"), ("shard_002", "main")];
    assert_eq!(databases, expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
}

#[tokio::test]
async fn a_question_makes_a_run_of_each_row() {
    let mut cluster = TestCluster::create(2, 0).await;
    let from = Some(Rows { sql: "SELECT id AS customer_id".into(), database: None });
    let values = BTreeMap::from([("day".to_owned(), json!("mon"))]);
    let parameters = Parameters { values, from };
    let job = cluster.nodes[0].create("reports", Definition { parameters, ..quick() }).await;
    let run = triggered(&cluster, &job, None).await;
    let mut seen = BTreeSet::new();
    let mut asked = 0;
    let carry_out = |started: &Started| {
        if !started.asks_rows {
            seen.insert(started.run.run.parameters.clone().unwrap());
            return AttemptResult::completed();
        }
        asked += 1;
        // The database is away at first: the question is tried again like any other attempt.
        if asked == 1 {
            return failed();
        }
        assert!(matches!(&started.job.definition.action, Action::Sql(_)));
        let result = Some(r#"[{"customer_id":1},{"customer_id":2},{"customer_id":3}]"#.to_owned());
        AttemptResult { result, ..AttemptResult::completed() }
    };
    cluster.until_ended(run, 30, carry_out).await;
    let whole = cluster.world.store.run(run).await.unwrap().unwrap();
    assert_eq!(whole.state.to_string(), "COMPLETED");
    assert_eq!(whole.message.as_deref(), Some("3 of 3 parts done"));
    let expected = [1, 2, 3].map(|id| format!(r#"{{"customer_id":{id},"day":"mon"}}"#));
    assert_eq!((seen, asked), (BTreeSet::from(expected), 2));
    // No row, no run.
    let run = triggered(&cluster, &job, None).await;
    let none =
        |_: &Started| AttemptResult { result: Some("[]".into()), ..AttemptResult::completed() };
    cluster.until_ended(run, 30, none).await;
    assert_eq!(state(&cluster, run).await, "COMPLETED");
}

#[tokio::test]
async fn a_rule_that_names_no_shard_fails_in_clear_words() {
    let mut cluster = TestCluster::create(1, 2).await;
    for (n, (rule, expected)) in [
        (Partition::SingleShard { shard: "eu".into() }, "there is no shard \"eu\""),
        (
            Partition::Dynamic { expression: "customer_id % 2".into() },
            "the expression of PARTITION BY: the run has no parameter \"customer_id\"",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let job = cluster.nodes[0].create(&format!("job-{n}"), partitioned(rule)).await;
        let run = triggered(&cluster, &job, None).await;
        cluster.until_ended(run, 10, |_| panic!("nothing starts")).await;
        let view = cluster.world.store.run(run).await.unwrap().unwrap();
        assert_eq!(view.state.to_string(), "FAILED");
        assert_eq!(view.message.as_deref(), Some(expected));
        assert_eq!(view.reason.as_deref(), Some("RETRIES_EXHAUSTED"));
    }
}

#[tokio::test]
async fn a_job_that_changes_while_its_run_is_split_does_not_do_the_work_itself() {
    let mut cluster = TestCluster::create(1, 4).await;
    let job = cluster.nodes[0].create("analyze", partitioned(Partition::AllShards)).await;
    let run = triggered(&cluster, &job, None).await;
    cluster.nodes[0].work().await;
    cluster.nodes[0]
        .alter_job(job.id, |job| job.definition.partition = None, SYSTEM)
        .await
        .unwrap();
    cluster.until_ended(run, 30, done).await;
    assert_eq!(cluster.log.len(), 4, "the parts, and nothing but the parts");
    assert!(cluster.log.iter().all(|(_, _, id)| *id != run));
}

#[tokio::test]
async fn parts_stay_where_they_are_when_their_job_asks_for_another_place() {
    let mut cluster = TestCluster::create(1, 4).await;
    let job = cluster.nodes[0].create("analyze", partitioned(Partition::AllShards)).await;
    let run = triggered(&cluster, &job, None).await;
    cluster.nodes[0].work().await;
    let elsewhere = |job: &mut Job| {
        job.definition.partition = None;
        job.definition.run_on = "zone=nowhere".parse().unwrap();
    };
    cluster.nodes[0].alter_job(job.id, elsewhere, SYSTEM).await.unwrap();
    for _ in 0..10 {
        cluster.second(&mut done).await;
    }
    assert_eq!(progress(&cluster, run).await.completed, 4);
    // The run itself goes with its job.
    assert_eq!(state(&cluster, run).await, "QUEUED");
    let back = |job: &mut Job| job.definition.run_on = Default::default();
    cluster.nodes[0].alter_job(job.id, back, SYSTEM).await.unwrap();
    cluster.until_ended(run, 30, done).await;
    assert_eq!((state(&cluster, run).await.as_str(), cluster.log.len()), ("COMPLETED", 4));
}

#[tokio::test]
async fn a_stale_owner_claims_nothing() {
    let mut cluster = TestCluster::create(2, 8).await;
    let job = cluster.nodes[0].create("analyze", partitioned(Partition::AllShards)).await;
    let stale: NodeId = cluster.nodes[1].id();
    assert!(!cluster.owned_by(stale).await.is_empty());
    cluster.world.store.steer(stale, NodeControl::Drain, SYSTEM).await.unwrap();
    cluster.nodes[0].attend().await.unwrap();
    cluster.world.store.steer(stale, NodeControl::Resume, SYSTEM).await.unwrap();
    // It has read nothing yet, and the leader has not assigned the shards to it again.
    let run = triggered(&cluster, &job, None).await;
    cluster.nodes[0].work().await;
    assert_eq!(cluster.nodes[1].claim_placed().await.unwrap(), 0);
    cluster.until_ended(run, 10, done).await;
    assert_eq!(state(&cluster, run).await, "COMPLETED");
}

/// Remote agents do not know the databases of the servers' settings. They own shards in other
/// databases, and those that an administrator has assigned to them.
#[tokio::test]
async fn a_shard_in_a_database_of_the_servers_is_owned_by_a_server() {
    let mut cluster = TestCluster::with(3, 0, |settings| {
        if settings.info.name == "node-0" {
            settings.info.address = Some("https://node-0:8080".to_owned());
        }
    })
    .await;
    cluster.add_object(ObjectKind::Database, "crm", "{}".to_owned()).await;
    let within = |database: &str| Some(database.to_owned());
    for n in 1..=12 {
        cluster.add_shard(n, ShardBody { database: within("main"), ..ShardBody::default() }).await;
    }
    for n in 13..=24 {
        cluster.add_shard(n, ShardBody { database: within("crm"), ..ShardBody::default() }).await;
    }
    let node = Some("node-2".to_owned());
    cluster
        .add_shard(25, ShardBody { database: within("main"), node, ..ShardBody::default() })
        .await;
    cluster.attend().await;
    let ids: Vec<_> = cluster.nodes.iter().map(|node| node.id()).collect();
    let owner = async |cluster: &TestCluster, n: usize| {
        let owned = cluster.owners().await[&cluster.shards[n - 1].0];
        ids.iter().position(|id| Some(*id) == owned.node)
    };
    for n in 1..=12 {
        assert_eq!(owner(&cluster, n).await, Some(0), "shard {n}");
    }
    let mut others = BTreeSet::new();
    for n in 13..=24 {
        others.insert(owner(&cluster, n).await);
    }
    assert_eq!(others, BTreeSet::from([Some(0), Some(1), Some(2)]));
    assert_eq!(owner(&cluster, 25).await, Some(2), "as its shard says");
}
