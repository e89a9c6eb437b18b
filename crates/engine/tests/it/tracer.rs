//! Events of a tracer, and counters: each end once, with the times of its steps.

use std::sync::{Arc, Mutex};

use domain::job::{Definition, Overlap, RetryPolicy};
use domain::run::{AttemptResult, ErrorCode, Outcome};
use domain::schedule::CatchUpPolicy;
use engine::{Planned, Settled, Tracer};
use jiff::Timestamp;
use store::SYSTEM;

use crate::world::{Steps, TestNode, World, cron};

/// Keeps a line for every event.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn time(at: Timestamp) -> String {
    at.strftime("%M:%S").to_string()
}

impl Tracer for Recorder {
    fn planned(&self, planned: Planned<'_>) {
        let Planned { run, job_name, began_at, recorded_at, .. } = planned;
        let (run, name) = (time(run.scheduled_for), job_name.unwrap_or("-"));
        let (began, recorded) = (time(began_at), time(recorded_at));
        self.0.lock().unwrap().push(format!("{run} planned {name} {began} {recorded}"));
    }

    fn settled(&self, settled: Settled<'_>) {
        let claimed = settled.claimed_at.map_or("-".to_owned(), time);
        let attempt = settled.finish.attempt.as_ref();
        let attempt = attempt.map_or("-".to_owned(), |attempt| {
            format!("{}:{} {}", attempt.number, attempt.result.end.name(), time(attempt.started_at))
        });
        let (run, decided) = (time(settled.run.run.scheduled_for), time(settled.decided_at));
        let (name, applied) = (&settled.job.name, settled.applied);
        let line = format!("{run} {name} {claimed} [{attempt}] {decided} {applied:?}");
        self.0.lock().unwrap().push(line);
    }
}

fn traced(start: &str) -> (World, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let mut world = World::at(start);
    world.tracer = Some(Arc::clone(&recorder) as Arc<dyn Tracer>);
    (world, recorder)
}

fn count(node: &TestNode, outcome: Outcome) -> u64 {
    let place = Outcome::ALL.iter().position(|known| *known == outcome).unwrap();
    node.outcomes()[place]
}

#[tokio::test]
async fn a_run_is_followed_from_its_plan_to_its_end() {
    let (world, recorder) = traced("2026-01-01T00:00:58Z");
    let node = world.node().await;
    let retry = RetryPolicy { max_attempts: 2, ..RetryPolicy::default() };
    node.create("job", Definition { retry, ..cron("1 * * * *") }).await;
    // Planned and taken ahead of its time.
    assert!(node.work().await.is_empty());
    assert_eq!(recorder.lines(), ["01:00 planned job 00:58 00:58"]);
    world.go_to("2026-01-01T00:01:00Z");
    let first = node.work().await.remove(0);
    assert_eq!(recorder.lines(), [] as [&str; 0], "nothing is settled yet");
    world.go_to("2026-01-01T00:01:05Z");
    let failed = AttemptResult::failed(ErrorCode::Exit(1), "no");
    assert!(node.complete(first.run.grant, failed));
    world.go_to("2026-01-01T00:01:06Z");
    node.flush().await;
    assert_eq!(recorder.lines(), ["01:00 job 00:58 [1:FAILED 01:00] 01:05 Again"]);
    world.go_to("2026-01-01T00:10:00Z");
    let second = node.work().await.remove(0);
    node.complete(second.run.grant, AttemptResult::completed());
    node.flush().await;
    let last = "01:00 job 10:00 [2:COMPLETED 10:00] 10:00 Ended(Completed)";
    assert_eq!(recorder.lines(), [last]);
    assert_eq!((count(&node, Outcome::Completed), count(&node, Outcome::Failed)), (1, 0));
}

#[tokio::test]
async fn a_run_that_is_turned_away_has_no_attempt() {
    let (world, recorder) = traced("2026-01-01T00:00:30Z");
    let node = world.node().await;
    node.create("job", Definition { overlap: Overlap::Skip, ..cron("* * * * *") }).await;
    world.go_to("2026-01-01T00:01:00Z");
    assert_eq!(node.work().await.len(), 1);
    recorder.lines();
    world.go_to("2026-01-01T00:02:00Z");
    assert!(node.work().await.is_empty());
    let lines = recorder.lines();
    let skipped = "02:00 job 02:00 [-] 02:00 Ended(Skipped)".to_owned();
    assert!(lines.contains(&skipped), "{lines:#?}");
    assert_eq!(count(&node, Outcome::Skipped), 1);
}

#[tokio::test]
async fn what_is_lost_is_told_by_its_heir_and_only_by_it() {
    let (world, recorder) = traced("2026-01-01T00:00:00Z");
    let dead = world.mortal_node().await;
    let job = dead.create("job", Definition::default()).await;
    dead.trigger(&job).await;
    let first = dead.work().await.remove(0);
    let heir = world.node().await;
    world.pass(11);
    heir.renew().await.unwrap();
    recorder.lines();
    heir.reap().await.unwrap();
    assert_eq!(recorder.lines(), ["00:00 job - [1:LOST 00:00] 00:11 Again"]);
    // The dead one was only suspended: its report is refused.
    dead.complete(first.run.grant, AttemptResult::completed());
    dead.flush().await;
    assert_eq!(recorder.lines(), [] as [&str; 0]);
    assert_eq!(dead.outcomes(), [0; 6]);
}

#[tokio::test]
async fn times_without_a_run_are_counted_one_by_one() {
    let world = World::at("2026-01-01T00:00:30Z");
    let node = world.node().await;
    let catch_up = CatchUpPolicy::None;
    node.create("job", Definition { catch_up, ..cron("* * * * *") }).await;
    // Nothing works for an hour and a half.
    world.go_to("2026-01-01T01:30:30Z");
    node.plan().await.unwrap();
    // The last one is planned late and not missed: the node was alive.
    assert_eq!(count(&node, Outcome::Skipped), 89);
}

#[tokio::test]
async fn what_is_cancelled_before_it_begins_is_counted() {
    let world = World::at("2026-01-01T00:00:00Z");
    let node = world.node().await;
    let job = node.create("job", Definition::default()).await;
    let later = engine::Trigger {
        at: Some("2026-01-02T00:00:00Z".parse().unwrap()),
        ..engine::Trigger::default()
    };
    let run = node.triggered(job.id, later).await.unwrap();
    node.submit(std::slice::from_ref(&run)).await.unwrap();
    node.cancel_run(run.id, "not needed", SYSTEM).await.unwrap();
    assert_eq!(count(&node, Outcome::Cancelled), 1);
}
