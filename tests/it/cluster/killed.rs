//! A node that executes is killed at work, and then a scheduler.

use serde_json::json;
use testbed::load::Stopwatch;

use super::member::{Member, database};
use super::{Cluster, wait_for_leader};

/// S2.117 and S2.118: a lease ends and another node takes over; a scheduler fails and the others
/// go on.
#[test]
fn a_killed_agent_and_a_killed_scheduler_lose_nothing() {
    let store = database("killed");
    let member = |name: &str, role: &str| {
        Member::new(name, &store).hasty().with("PUNCTUAL_ENGINE__ROLES", role)
    };
    let mut cluster = Cluster::create(vec![
        member("scheduler-1", "scheduler"),
        member("scheduler-2", "scheduler"),
        member("agent-1", "agent"),
        member("agent-2", "agent"),
    ]);
    cluster.create_job("every", &json!({}));
    cluster.create_slow_job("long");
    cluster.ledger.hold(true);
    let run = cluster.trigger("long");
    let at_work = cluster.wait_for_worker(&run);
    assert!(at_work.starts_with("agent"), "{at_work}");
    cluster.kill(&at_work);
    // The same run, on the other one.
    cluster.wait_for_effects("long", 1);
    cluster.ledger.hold(false);
    cluster.wait_for_run("long", "COMPLETED");
    let effects = cluster.ledger.of("long");
    assert_eq!(effects.len(), 2, "{effects:?}");
    assert!(effects.iter().all(|effect| effect.run == run), "{effects:?}");
    assert!(effects[0].fence < effects[1].fence, "{effects:?}");
    let attempts: Vec<i64> = effects.iter().map(|effect| effect.attempt).collect();
    assert_eq!(attempts, [1, 2]);
    cluster.start_again(&at_work);

    // Ticks are planned for two seconds, so from then on the other one plans.
    let old = wait_for_leader(cluster.any());
    let began = Stopwatch::start();
    cluster.kill(&old.0);
    let witness = cluster.others(&old.0).remove(0);
    let next = cluster.followed(&witness, &old, began);
    assert!(next.0.starts_with("scheduler"), "{next:?}");
    cluster.wait_for_effects("every", 4);
    cluster.settle(&["every"]);
    cluster.check("long", i64::MAX);
}
