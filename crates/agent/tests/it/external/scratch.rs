//! The scratch directory of a run.

use agent::Stop;
use agent::sandbox::Level;
use domain::run::AttemptEnd;
use tokio::sync::watch;

use super::{World, assignment};

#[tokio::test]
async fn a_run_begins_in_an_empty_directory_of_its_own() {
    let world = World::new();
    let script = "pwd; echo $HOME $TMPDIR; ls -A; ls -ld . | cut -c1-10; echo x > x; mkdir y; ls -A; \
                  touch /var/tmp/z /dev/shm/w; ls; grep ' /tmp ' /proc/self/mounts | cut -d' ' -f4 | cut -d, -f1-4";
    // The second finds nothing of the first.
    for _ in 0..2 {
        let outcome = world.run(&world.script(script)).await;
        let first = "/tmp\n/tmp /tmp\ndrwx------\nx\ny\n";
        let links = if outcome.stderr.is_empty() { "w\nx\ny\nz\n" } else { "w\nx\ny\n" };
        let flags = "rw,nosuid,nodev,noexec\n";
        assert_eq!(outcome.stdout, format!("{first}{links}{flags}"), "{}", outcome.stderr);
    }
}

#[tokio::test]
async fn runs_at_the_same_time_share_no_files() {
    for level in [Level::Required, Level::Off] {
        let world = World::with_level(level);
        let agent = world.agent();
        let first =
            world.file("first", "#!/bin/sh\necho secret > note; pwd; echo ready; sleep 1000\n");
        let first = assignment(first.to_str().unwrap());
        let (ask, requests) = watch::channel(None);
        let (outcome, ()) =
            tokio::join!(world.run_by(&agent, &first, Stop::new(requests)), async {
                world.has_said(first.run, "ready").await;
                let place = world.text(first.run, agent::output::Stream::Stdout);
                let place = place.lines().next().unwrap();
                let script = format!("ls -A; ls -A {place}; cat {place}/note; echo end");
                let (_quiet, requests) = watch::channel(None);
                let other = world.script(&script);
                let other = world.run_by(&agent, &other, Stop::new(requests)).await;
                // Without a sandbox the user of both is the same, and the name of the other is all
                // that keeps them apart.
                if level == Level::Required {
                    assert_eq!(other.stdout, "end\n", "{}", other.stderr);
                } else {
                    assert_eq!(other.stdout, "note\nsecret\nend\n", "{}", other.stderr);
                }
                ask.send(Some(AttemptEnd::Cancelled)).unwrap();
            });
        assert_eq!(outcome.result.end, AttemptEnd::Cancelled);
    }
}

#[tokio::test]
async fn a_place_in_tmp_that_is_wanted_stays() {
    let mut world = World::new();
    let shared = tempfile::tempdir_in("/tmp").unwrap();
    super::open_to_all(shared.path());
    world.options.writable = vec![shared.path().to_owned()];
    let script = format!("pwd; echo x > {}/x; echo $TMPDIR; ls -A", shared.path().display());
    let outcome = world.run(&world.script(&script)).await;
    // The commands of the test are in /var/tmp.
    assert_eq!(outcome.stdout, "/scratch\n/scratch\n", "{}", outcome.stderr);
    assert!(shared.path().join("x").exists());
}

#[tokio::test]
async fn a_folder_of_all_runs_is_used_if_it_is_configured() {
    let mut world = World::new();
    world.options.working_directory = Some(world.dir.path().join("work"));
    for (script, expected) in [("echo 1 > n; pwd", ""), ("cat n; pwd", "1\n")] {
        let outcome = world.run(&world.script(script)).await;
        let work = world.dir.path().join("work");
        assert_eq!(outcome.stdout, format!("{expected}{}\n", work.display()), "{}", outcome.stderr);
    }
    let outcome = world.run(&world.script("echo $HOME $TMPDIR")).await;
    assert_eq!(outcome.stdout, "/tmp /tmp\n", "{}", outcome.stderr);
}
