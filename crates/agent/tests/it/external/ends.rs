//! How commands end, by themselves and otherwise. Whatever the end, nothing stays.

use std::time::Duration;

use agent::Stop;
use agent::sandbox::Level;
use domain::run::{AttemptEnd, ErrorCode};
use jiff::SignedDuration;
use tokio::sync::watch;

use super::{World, processes, wait_for};

/// Every level must clean up.
const LEVELS: [Level; 2] = [Level::Required, Level::Off];

#[tokio::test]
async fn codes_and_signals_are_told() {
    for level in LEVELS {
        let world = World::with_level(level);
        for (script, end, error, words) in [
            ("exit 0", AttemptEnd::Completed, None, ""),
            ("echo why >&2; exit 3", AttemptEnd::Failed, Some(ErrorCode::Exit(3)), "code 3: why"),
            ("exit 255", AttemptEnd::Failed, Some(ErrorCode::Exit(255)), "code 255"),
            ("kill -TERM $$", AttemptEnd::Failed, Some(ErrorCode::Signal(15)), "SIGTERM"),
            ("kill -KILL $$", AttemptEnd::Failed, Some(ErrorCode::Signal(9)), "SIGKILL"),
            ("kill -SEGV $$", AttemptEnd::Failed, Some(ErrorCode::Signal(11)), "SIGSEGV"),
        ] {
            let outcome = world.run(&world.script(script)).await;
            assert_eq!((outcome.result.end, &outcome.result.error), (end, &error), "{script}");
            assert!(outcome.result.message.contains(words), "{}", outcome.result.message);
        }
    }
}

#[tokio::test]
async fn an_output_that_is_one_json_value_is_the_result() {
    let world = World::new();
    for (script, result) in [
        (r#"echo '{"rows": 3}'"#, Some(r#"{"rows": 3}"#)),
        ("echo 7; echo problem >&2; exit 1", Some("7")),
        ("echo 7; echo 8", None),
        ("echo plain text", None),
        ("", None),
        (r#"printf '"%65536s"' x"#, None),
        (r#"printf '"%1000s"' x"#, Some("")),
    ] {
        let outcome = world.run(&world.script(script)).await;
        let found = outcome.result.result.as_deref();
        match result {
            Some("") => assert_eq!(found.map(str::len), Some(1_002), "{script}"),
            _ => assert_eq!(found, result, "{script}"),
        }
    }
}

#[tokio::test]
async fn what_it_used_is_told() {
    let world = World::new();
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo out; echo err >&2";
    let outcome = world.run(&world.script(script)).await;
    let usage = &outcome.details["usage"];
    assert!(usage["user_ms"].as_u64().unwrap() > 0, "{usage}");
    assert!(usage["peak_memory_bytes"].as_u64().unwrap() > 100_000, "{usage}");
    assert_eq!(outcome.details["output"]["stdout_bytes"], 4);
    assert_eq!(outcome.details["output"]["stderr_bytes"], 4);
    assert_eq!(outcome.details["limits"]["processes"], 128);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
}

#[tokio::test]
async fn a_command_that_listens_ends_by_itself() {
    for level in LEVELS {
        let world = World::with_level(level);
        let job =
            world.script("trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.05; done");
        let (ask, requests) = watch::channel(None);
        let (outcome, ()) = tokio::join!(world.run_until(&job, Stop::new(requests)), async {
            world.has_said(job.run, "ready").await;
            ask.send(Some(AttemptEnd::Cancelled)).unwrap();
        });
        assert_eq!(outcome.result.end, AttemptEnd::Cancelled);
        assert_eq!(outcome.result.error, Some(ErrorCode::Exit(4)));
        assert_eq!(outcome.stdout, "ready\nbye\n");
        assert!(!outcome.result.message.contains("killed"), "{}", outcome.result.message);
    }
}

#[tokio::test]
async fn a_command_that_does_not_listen_is_killed_with_all_that_it_started() {
    for level in LEVELS {
        let world = World::with_level(level);
        // One child in the group, one in a session of its own, one whose parents are gone.
        let script = "trap '' TERM; sleep 1000 & setsid sleep 1000 & \
                      (setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &) ; \
                      echo ready; while :; do sleep 1; done";
        let mut job = world.script(script);
        job.grace_period = SignedDuration::from_millis(200);
        let (ask, requests) = watch::channel(None);
        let (outcome, ()) = tokio::join!(world.run_until(&job, Stop::new(requests)), async {
            world.has_said(job.run, "ready").await;
            wait_for("its processes", || processes(job.run).len() >= 5).await;
            ask.send(Some(AttemptEnd::Timeout)).unwrap();
        });
        assert_eq!(outcome.result.end, AttemptEnd::Timeout, "{level:?}");
        assert_eq!(outcome.result.error, Some(ErrorCode::Signal(9)));
        assert!(outcome.result.message.contains("killed"), "{}", outcome.result.message);
    }
}

#[tokio::test]
async fn a_stopped_command_ends_too() {
    let world = World::new();
    let job = world.script("echo ready; kill -STOP $$; echo never");
    let (ask, requests) = watch::channel(None);
    let (outcome, ()) = tokio::join!(world.run_until(&job, Stop::new(requests)), async {
        world.has_said(job.run, "ready").await;
        ask.send(Some(AttemptEnd::Cancelled)).unwrap();
    });
    assert_eq!(outcome.result.end, AttemptEnd::Cancelled);
}

#[tokio::test]
async fn children_do_not_outlive_the_command() {
    for level in LEVELS {
        let world = World::with_level(level);
        // The output stays open in the children: the end does not wait for them.
        let script = "sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &); \
                      while [ $(ls /proc | grep -c '^[0-9]') -lt 3 ]; do :; done; echo done";
        let outcome = world.run(&world.script(script)).await;
        assert_eq!(outcome.result.end, AttemptEnd::Completed, "{:?}", outcome.result);
        assert_eq!(outcome.stdout, "done\n");
        assert!(outcome.details["left_behind"].as_u64().unwrap() > 0, "{}", outcome.details);
    }
}

#[tokio::test]
async fn a_lost_run_is_not_waited_for() {
    let world = World::new();
    let mut job = world.script("trap '' TERM; echo ready; while :; do sleep 1; done");
    job.grace_period = SignedDuration::from_hours(1);
    let (ask, requests) = watch::channel(None);
    let (outcome, ()) = tokio::join!(world.run_until(&job, Stop::new(requests)), async {
        world.has_said(job.run, "ready").await;
        ask.send(Some(AttemptEnd::Lost)).unwrap();
    });
    assert_eq!(outcome.result.end, AttemptEnd::Lost);
}

#[tokio::test]
async fn a_stop_at_any_moment_leaves_nothing() {
    let world = World::new();
    let script = "sleep 0.02; (setsid sleep 1000 &); sleep 0.02; trap '' TERM; sleep 0.05";
    let (mut stopped, mut ended) = (0, 0);
    for step in 0..60 {
        let mut job = world.script(script);
        job.grace_period = SignedDuration::from_millis(step % 3 * 20);
        let (ask, requests) = watch::channel(None);
        let (outcome, ()) = tokio::join!(world.run_until(&job, Stop::new(requests)), async {
            tokio::time::sleep(Duration::from_micros(step as u64 * 2500)).await;
            // It may have ended already.
            let _ = ask.send(Some(AttemptEnd::Cancelled));
        });
        match outcome.result.end {
            AttemptEnd::Cancelled => stopped += 1,
            AttemptEnd::Completed => ended += 1,
            other => panic!("{other:?}: {:?}", outcome.result),
        }
    }
    println!("{stopped} stopped, {ended} ended by themselves");
    assert!(stopped > 10, "{stopped} of 60");
}

#[tokio::test]
async fn an_attempt_that_is_dropped_leaves_nothing() {
    for level in LEVELS {
        let world = World::with_level(level);
        for step in 0..10 {
            let job = world.script("trap '' TERM; (setsid sleep 1000 &); echo ready; sleep 1000");
            let (_quiet, requests) = watch::channel(None);
            let output = world.outputs.open(job.run, 1);
            let agent = world.agent();
            let attempt = agent.execute(&job, output, Stop::new(requests));
            let wait = Duration::from_millis(step * 8);
            assert!(tokio::time::timeout(wait, attempt).await.is_err());
            wait_for("the end of everything", || processes(job.run).is_empty()).await;
        }
    }
}
