//! Kernels that lack a feature: it is reported, it is refused where it is required, and the other
//! restrictions still hold.

use agent::sandbox::{Feature, Level};
use agent::{Network, Stop};
use domain::run::{AttemptEnd, ErrorCode};
use jiff::SignedDuration;
use tokio::sync::watch;

use super::{HELPER, World, assert_refused, processes, wait_for};

/// A machine whose kernel lacks a feature.
fn world(level: Level, feature: &str) -> World {
    let mut world = World::with_level(level);
    world.options.helper =
        world.file("helper", &format!("#!/bin/sh\nexec {HELPER} without {feature} \"$@\"\n"));
    world
}

#[tokio::test]
async fn what_is_required_is_refused_without_it() {
    for (feature, names) in [
        ("namespaces", &["processes", "root", "scratch"][..]),
        ("mounts", &["root", "scratch"]),
        ("landlock", &["files"]),
    ] {
        let world = world(Level::Required, feature);
        let outcome = world.run(&world.script("echo started")).await;
        assert_refused(&outcome, "SANDBOX_UNAVAILABLE", "this machine cannot enforce");
        let report = &outcome.details["sandbox"]["report"];
        let probed = world.options.probe().await.unwrap();
        for name in names {
            assert!(outcome.result.message.contains(name), "{}", outcome.result.message);
            assert!(report["missing"][name].is_string(), "{report}");
            assert!(probed.lacks().unwrap().contains(name), "{probed:?}");
        }
    }
}

#[tokio::test]
async fn without_namespaces_the_rest_holds() {
    let world = world(Level::BestEffort, "namespaces");
    let key = world.dir.path().join("data/master.key");
    let script = format!(
        "cat {}; cat /proc/1/environ; exec 3<>/dev/tcp/127.0.0.1/1; echo end",
        key.display()
    );
    world.file("bash", &format!("#!/bin/bash\n{script}\n"));
    let outcome = world.run(&super::assignment("bash")).await;
    assert_eq!(outcome.stdout, "end\n", "{}", outcome.stderr);
    assert!(outcome.stderr.contains("Operation not permitted"), "{}", outcome.stderr);
    let probed = world.options.probe().await.unwrap();
    for feature in
        [Feature::Processes, Feature::Root, Feature::Scratch, Feature::Ipc, Feature::Memory]
    {
        assert!(probed.missing.contains_key(&feature), "{probed:?}");
    }
    for feature in [Feature::Files, Feature::SystemCalls, Feature::Network, Feature::User] {
        assert!(probed.in_force.contains_key(&feature), "{probed:?}");
    }
}

#[tokio::test]
async fn without_namespaces_nothing_stays_either() {
    let world = world(Level::BestEffort, "namespaces");
    let script = "trap '' TERM; sleep 1000 & setsid sleep 1000 & \
                  (setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' &) ; echo ready; ";
    let outcome = world.run(&world.script(&format!("{script} exit 5"))).await;
    assert_eq!(outcome.result.error, Some(ErrorCode::Exit(5)));
    assert!(outcome.details["left_behind"].as_u64().unwrap() > 0, "{}", outcome.details);
    let mut job = world.script(&format!("{script} while :; do sleep 1; done"));
    job.grace_period = SignedDuration::from_millis(100);
    let (ask, requests) = watch::channel(None);
    let (outcome, ()) = tokio::join!(world.run_until(&job, Stop::new(requests)), async {
        world.has_said(job.run, "ready").await;
        wait_for("its processes", || processes(job.run).len() >= 5).await;
        ask.send(Some(AttemptEnd::Cancelled)).unwrap();
    });
    assert_eq!(outcome.result.end, AttemptEnd::Cancelled);
}

#[tokio::test]
async fn without_namespaces_a_command_cannot_get_rid_of_its_helpers() {
    let world = world(Level::BestEffort, "namespaces");
    if nix::unistd::geteuid().is_root() {
        // They belong to root. Signal 0 does nothing.
        let script =
            "for less in 0 1 2 3 4; do kill -0 $((PPID-less)) && echo reached; done; echo end";
        let outcome = world.run(&world.script(script)).await;
        assert_eq!(outcome.stdout, "end\n", "{:?} {}", outcome.result, outcome.stderr);
        return;
    }
    // The init process dies, and the outer helper sees to the rest.
    let script = "(setsid sleep 1000 &); kill -KILL $PPID; sleep 1000";
    let outcome = world.run(&world.script(script)).await;
    assert_eq!(outcome.result.end, AttemptEnd::Failed);
    assert_eq!(outcome.result.error.unwrap().to_string(), "COMMAND_LOST");
    // The init process hangs.
    let mut job = world.script("(setsid sleep 1000 &); kill -STOP $PPID; echo ready; sleep 1000");
    job.grace_period = SignedDuration::from_millis(100);
    let (ask, requests) = watch::channel(None);
    let (outcome, ()) = tokio::join!(world.run_until(&job, Stop::new(requests)), async {
        world.has_said(job.run, "ready").await;
        ask.send(Some(AttemptEnd::Cancelled)).unwrap();
    });
    assert_eq!(outcome.result.end, AttemptEnd::Cancelled);
}

#[tokio::test]
async fn without_landlock_the_data_folder_stays_hidden() {
    let world = world(Level::BestEffort, "landlock");
    let dir = world.dir.path().display();
    let outcome = world
        .run(&world.script(&format!("cat {dir}/data/master.key; ls {dir}/data; ls {dir}/commands")))
        .await;
    assert_eq!(outcome.stdout, "helper\nscript\n", "{}", outcome.stderr);
    let report = &outcome.details["sandbox"]["report"];
    assert_eq!(report["in_force"]["protected_files"], "out of reach", "{report}");
    assert!(report["missing"]["files"].is_string(), "{report}");
}

#[tokio::test]
async fn without_landlock_a_command_with_a_network_makes_no_unix_socket() {
    // Nothing else would keep it from sockets that are no files.
    let mut world = world(Level::BestEffort, "landlock");
    world.options.network = Network::Allow;
    let program = "import socket\n\
                   for family in [socket.AF_UNIX, socket.AF_INET]:\n    \
                   try: socket.socket(family); print('made')\n    \
                   except OSError as error: print(error.strerror)\n\
                   for kind in [socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET]:\n    \
                   try: socket.socketpair(socket.AF_UNIX, kind); print('paired')\n    \
                   except OSError as error: print(error.strerror)";
    let outcome = world.run(&world.python(program)).await;
    let expected = "Operation not permitted\nmade\nOperation not permitted\npaired\npaired\n";
    assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
}

#[tokio::test]
async fn without_mounts_the_data_folder_stays_closed() {
    let world = world(Level::BestEffort, "mounts");
    let dir = world.dir.path().display();
    let script = format!(
        "cat {dir}/data/master.key; echo $HOME $TMPDIR; pwd; ls /proc; echo x > /tmp/x; ls -a; echo y > y; cat y; echo end"
    );
    let job = world.script(&script);
    let outcome = world.run(&job).await;
    let scratch = format!("/tmp/punctual-scratch-{}-{}-1", std::process::id(), job.run);
    let expected = format!("{scratch} {scratch}\n{scratch}\n.\n..\ny\nend\n");
    assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
    assert!(!std::fs::exists(scratch).unwrap(), "the scratch directory stays");
    let report = &outcome.details["sandbox"]["report"];
    assert!(report["missing"]["root"].is_string(), "{report}");
    assert!(report["missing"]["scratch"].is_string(), "{report}");
}
