//! Tests that the specification requires on a cluster of three, by its numbers.
//!
//! | item | test |
//! |---|---|
//! | S0.144, S0.145, S2.115, S2.119 | here |
//! | S0.146 | with the shards |
//! | S2.112 | `due_jobs_are_enabled_and_near` of the store's suite |
//! | S2.113 | `a_tick_has_one_row` and `racing_planners_make_one_set_of_runs` of the same |
//! | S2.114 | `every_tick_runs_once_at_its_time` of the engine |
//! | S2.116 | `racing.rs` |
//! | S2.117, S2.118 | `failover.rs`, `killed.rs` |

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use testbed::load::Stopwatch;

use super::Cluster;
use super::ledger::now;
use super::member::{Member, database};
use crate::serve::process::until;

#[test]
fn s0_144_a_job_in_five_seconds_has_run_within_ten() {
    let cluster = Cluster::start("s0_144", &["a", "b", "c"]);
    let made = Stopwatch::start();
    let at = now() + SignedDuration::from_secs(5);
    cluster.create_any_job(&json!({
        "name": "once", "job_type": "ONE_TIME", "run_at": at.to_string(),
        "payload": {"endpoint": cluster.ledger.endpoint()},
    }));
    cluster.wait_for_effects("once", 1);
    made.assert_within(Duration::from_secs(10));
    cluster.wait_for_run("once", "COMPLETED");
    let effects = cluster.ledger.of("once");
    assert_eq!(effects.len(), 1, "{effects:?}");
    assert!(effects[0].at >= at, "{effects:?}");
}

#[test]
fn s0_145_three_retries_are_four_attempts() {
    let cluster = Cluster::start("s0_145", &["a", "b", "c"]);
    cluster.create_any_job(&json!({
        "name": "doomed", "job_type": "MANUAL",
        "retry_config": {"max_retries": 3, "backoff_seconds": 1, "backoff_multiplier": 1},
        "payload": {"endpoint": cluster.ledger.endpoint(), "expected_status": [500]},
    }));
    cluster.trigger("doomed");
    cluster.wait_for_run("doomed", "FAILED");
    let attempts: Vec<i64> =
        cluster.ledger.of("doomed").iter().map(|effect| effect.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    assert_eq!(cluster.runs("doomed").len(), 1);
}

/// Each node has room for one run, so three at the same time are on three nodes.
#[test]
fn s2_115_ticks_are_executed_by_every_node() {
    let store = database("s2_115");
    let member =
        |name: &str| Member::new(name, &store).with("PUNCTUAL_ENGINE__MAX_HTTP_CALLS", "1");
    let cluster = Cluster::create(vec![member("a"), member("b"), member("c")]);
    cluster.ledger.hold(true);
    for job in ["one", "two", "three"] {
        cluster.create_any_job(&json!({
            "name": job, "job_type": "DELAYED", "delay_seconds": 1,
            "payload": {"endpoint": cluster.ledger.slow_endpoint()},
        }));
    }
    until(|| (cluster.ledger.all().len() == 3).then_some(()));
    let runs = cluster.ledger.all();
    let workers: BTreeSet<String> =
        runs.iter().map(|effect| cluster.wait_for_worker(&effect.run)).collect();
    assert_eq!(workers.len(), 3, "{workers:?}");
    cluster.ledger.hold(false);
    for job in ["one", "two", "three"] {
        cluster.wait_for_run(job, "COMPLETED");
    }
}

#[test]
fn s2_119_twelve_hundred_schedules_fire_once_each() {
    const JOBS: usize = 1_200;
    const AT_A_TIME: usize = 200;
    let cluster = Cluster::start("s2_119", &["a", "b", "c"]);
    let job = |number: usize| {
        json!({
            "name": format!("job-{number}"), "job_type": "DELAYED", "delay_seconds": 2,
            "payload": {"endpoint": cluster.ledger.endpoint()},
        })
    };
    for first in (0..JOBS).step_by(AT_A_TIME) {
        let jobs: Vec<Value> = (first..first + AT_A_TIME).map(job).collect();
        let (status, made) = cluster.any().call("POST", "/v1/jobs:bulk", Some(&json!(jobs)));
        assert_eq!((status, &made["created"]), (200, &json!(AT_A_TIME)), "{made}");
    }
    until(|| (cluster.ledger.all().len() >= JOBS).then_some(()));
    let effects = cluster.ledger.all();
    let jobs: BTreeSet<&str> = effects.iter().map(|effect| effect.job.as_str()).collect();
    assert_eq!((effects.len(), jobs.len()), (JOBS, JOBS));
}
