//! Outputs go with history, and not before.

use agent::output::Stream;
use domain::id::RunId;
use jiff::SignedDuration;
use serde_json::json;
use server::Sweeper;

use crate::world::{World, until};

/// Looks at everything once; answers how many runs lost their output.
async fn sweep(world: &World) -> usize {
    let mut sweeper = Sweeper::new(&world.app);
    let (mut gone, mut parts) = (0, 0);
    while parts < 256 {
        let swept = sweeper.step().await.unwrap();
        gone += swept.gone;
        parts += usize::from(!swept.is_more);
    }
    gone
}

#[tokio::test]
async fn outputs_go_with_history() {
    let world = World::now().await;
    let mut runs = Vec::new();
    for (name, days) in [("short", 2), ("long", 2_000)] {
        let body = json!({
            "name": name, "job_type": "MANUAL", "payload": {"endpoint": "http://flood"},
            "retention": {"days": days},
        });
        assert_eq!(world.post("/v1/jobs", body).await.status, 201);
        let run = world.trigger(name).await;
        assert_eq!(world.ended(&run).await["status"], "COMPLETED");
        runs.push(run.parse::<RunId>().unwrap());
    }
    let kept = |run: RunId| world.app.outputs.attempts(run).unwrap().len();

    // The store does not have this run, and it writes output.
    let stranger = RunId::of_request((world.app.clock)(), 1 << 60);
    let output = world.app.outputs.open(stranger, 1);
    output.write(Stream::Stdout, &[b'x'; 1 << 16]);
    until(|| async { (kept(stranger) > 0).then_some(()) }).await;

    // Young outputs are kept, whether the store has the run or not.
    assert_eq!(sweep(&world).await, 0);

    world.go_to_instant((world.app.clock)() + SignedDuration::from_hours(10 * 24));
    // History still knows both; only what it forgets goes.
    assert_eq!(world.get(&format!("/v1/executions/{}", runs[0])).await.status, 200);
    assert_eq!(sweep(&world).await, 0);
    while world.engine.node().prune().await.unwrap() > 0 {}
    assert_eq!(world.get(&format!("/v1/executions/{}", runs[0])).await.status, 404);
    assert_eq!(sweep(&world).await, 1);
    assert_eq!((kept(runs[0]), kept(runs[1]), kept(stranger)), (0, 1, 1));

    output.finish().await.unwrap();
    drop(output);
    assert_eq!(sweep(&world).await, 1);
    assert_eq!((kept(runs[1]), kept(stranger)), (1, 0));
}
