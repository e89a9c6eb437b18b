//! The agent itself is killed in the middle.

use std::process::Stdio;

use agent::output::Stream;
use agent::sandbox::Level;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Command;

use super::{HELPER, World, processes, wait_for};

#[tokio::test]
async fn nothing_outlives_the_agent_and_the_output_so_far_is_kept() {
    for level in [Level::Required, Level::Off] {
        for round in 0..5 {
            let world = World::with_level(level);
            let script = "trap '' TERM HUP; (setsid sleep 1000 &); echo so far; \
                          i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done";
            let job = world.script(script);
            let mut agent = Command::new(HELPER)
                .arg(world.dir.path())
                .arg(serde_json::to_value(level).unwrap().as_str().unwrap())
                .arg(serde_json::to_string(&job).unwrap())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .unwrap();
            world.has_said(job.run, &format!("\n{}\n", 1 + round * 10)).await;
            assert!(processes(job.run).len() >= 2);
            let id = agent.id().unwrap();
            kill(Pid::from_raw(id.try_into().unwrap()), Signal::SIGKILL).unwrap();
            agent.wait().await.unwrap();
            wait_for("the end of everything", || processes(job.run).is_empty()).await;
            let text = world.text(job.run, Stream::Stdout);
            assert!(text.starts_with("so far\n1\n"), "{text:?}");
            let slice = world.outputs.read(job.run, 1, 0, usize::MAX, None).unwrap();
            assert!(!slice.is_final, "the end was not written");
            assert_eq!(world.outputs.attempts(job.run).unwrap(), [1]);
        }
    }
}
