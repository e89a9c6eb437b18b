//! Jobs that let an operator decide about a run whose node was lost.

use domain::alert::AlertKind;
use domain::id::RunId;
use domain::job::{Definition, LostAnswer, LostQuestion, OnLost};
use domain::run::{AttemptResult, Reason, ReasonCode};
use jiff::SignedDuration;
use store::{Decided, SYSTEM, Store};

use crate::alerts::Postbox;
use crate::world::{Steps, TestNode, World};

fn asking(then: LostAnswer) -> Definition {
    let timeout = SignedDuration::from_mins(10);
    let lost_question = LostQuestion { timeout, then };
    Definition { on_lost: OnLost::Ask, lost_question, ..Definition::default() }
}

fn decided() -> Reason {
    Reason { code: ReasonCode::Decided, text: "by hand".to_owned() }
}

/// A run whose node was lost while it was at work, and a node that goes on.
async fn lost_run(world: &World, then: LostAnswer) -> (TestNode, RunId) {
    let dead = world.mortal_node().await;
    let job = dead.create("job", asking(then)).await;
    let run = dead.trigger(&job).await;
    assert_eq!(dead.work().await.len(), 1);
    let heir = world.node().await;
    world.pass(11);
    assert_eq!(heir.reap().await.unwrap().lost, 1);
    (heir, run)
}

async fn state(world: &World, run: RunId) -> String {
    world.store.run(run).await.unwrap().unwrap().state.to_string()
}

#[tokio::test]
async fn a_lost_run_waits_for_a_decision_and_raises_an_alert() {
    let world = World::at("2026-01-01T00:00:00Z");
    let (node, run) = lost_run(&world, LostAnswer::Fail).await;
    assert_eq!(state(&world, run).await, "HELD");
    assert!(node.work().await.is_empty());
    let postbox = Postbox::default();
    node.notify(&postbox).await;
    let alerts = postbox.empty();
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert!(alerts[0].starts_with(AlertKind::RunHeld.name()), "{alerts:?}");
    assert!(alerts[0].contains(&format!("punctual run decide {run}")), "{alerts:?}");
    let attempts = world.store.attempts(run).await.unwrap();
    assert_eq!(attempts.iter().map(|it| it.end.as_str()).collect::<Vec<_>>(), ["LOST"]);
    // The decision to attempt it again.
    let again = world.store.decide(run, LostAnswer::Retry, &decided(), SYSTEM).await.unwrap();
    assert_eq!(again, Decided::Again);
    let second = world.store.decide(run, LostAnswer::Fail, &decided(), SYSTEM).await.unwrap();
    assert_eq!(second, Decided::NotHeld);
    let started = node.work().await.remove(0);
    assert_eq!(started.run.number(), 2);
    node.complete(started.run.grant, AttemptResult::completed());
    node.flush().await;
    assert_eq!(state(&world, run).await, "COMPLETED");
}

#[tokio::test]
async fn a_decision_ends_the_run() {
    for (answer, expected) in
        [(LostAnswer::Fail, "FAILED DECIDED"), (LostAnswer::Complete, "COMPLETED DECIDED")]
    {
        let world = World::at("2026-01-01T00:00:00Z");
        let (node, run) = lost_run(&world, LostAnswer::Retry).await;
        world.store.decide(run, answer, &decided(), SYSTEM).await.unwrap();
        let view = world.store.run(run).await.unwrap().unwrap();
        assert_eq!(format!("{} {}", view.state, view.reason.unwrap()), expected);
        assert!(node.work().await.is_empty());
    }
}

#[tokio::test]
async fn without_a_decision_the_rule_of_the_job_decides() {
    for (then, expected) in [
        (LostAnswer::Fail, "FAILED"),
        (LostAnswer::Complete, "COMPLETED"),
        (LostAnswer::Retry, "RUNNING"),
    ] {
        let world = World::at("2026-01-01T00:00:00Z");
        let (node, run) = lost_run(&world, then).await;
        world.pass(599);
        node.reap().await.unwrap();
        assert_eq!(state(&world, run).await, "HELD", "{then:?}");
        world.pass(2);
        node.reap().await.unwrap();
        node.work().await;
        assert_eq!(state(&world, run).await, expected, "{then:?}");
    }
}
