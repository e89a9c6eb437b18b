//! The overhead of the sandbox: runs of `/bin/true` per second, directly, with the sandbox off, and
//! with all of it.
//!
//! `cargo xtask bench external [RUNS [WAY]]` prints one JSON line for each measurement. The three
//! alternate, so that other load of the machine affects all of them; processor time varies least
//! with it. The first run of an agent, which starts the launcher, is not counted.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

extern crate punctual_agent as agent;

use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::output::Output;
use agent::sandbox::Level;
use agent::{Agent, ExternalOptions, Options, Stop};
use domain::action::{Action, Assignment, ExternalAction};
use domain::id::{JobId, RunId, TenantId};
use domain::run::AttemptEnd;
use jiff::{SignedDuration, Timestamp};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use tokio::process::Command;
use tokio::task::JoinSet;
use uuid::Uuid;

const COMMAND: &str = "/bin/true";
const ROUNDS: u32 = 5;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Direct,
    Agent(Level),
}

fn agent(sandbox: Level) -> Agent {
    let external = ExternalOptions {
        enabled: true,
        allow: vec![COMMAND.into()],
        sandbox,
        ..ExternalOptions::default()
    };
    Agent::new(Options { external, ..Options::default() })
}

fn assignment(number: u32) -> Assignment {
    Assignment {
        effect: None,
        run: RunId(Uuid::from_u128(u128::from(number))),
        job: JobId(Uuid::from_u128(1)),
        job_name: "bench".into(),
        tenant: TenantId(Uuid::from_u128(2)),
        attempt: 1,
        fence: 1,
        scheduled_for: Timestamp::UNIX_EPOCH,
        deadline: Timestamp::UNIX_EPOCH,
        grace_period: SignedDuration::from_secs(1),
        shard: String::new(),
        run_as: None,
        parameters: [].into(),
        action: Action::External(ExternalAction {
            command: COMMAND.into(),
            arguments: Vec::new(),
            environment: [].into(),
        }),
    }
}

/// Runs the command so many times, some at once.
async fn measure(way: Way, first: u32, runs: u32, at_once: u32) -> [Duration; 2] {
    let agent = Arc::new(agent(if let Way::Agent(level) = way { level } else { Level::Off }));
    let cpu = cpu();
    if way != Way::Direct {
        run(&agent, first + runs).await;
    }
    let begin = Instant::now();
    let mut lanes = JoinSet::new();
    for lane in 0..at_once {
        let agent = agent.clone();
        lanes.spawn(async move {
            for number in (lane..runs).step_by(at_once as usize) {
                if way == Way::Direct {
                    let mut command = Command::new(COMMAND);
                    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                    assert!(command.output().await.unwrap().status.success());
                } else {
                    run(&agent, first + number).await;
                }
            }
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane.unwrap();
    }
    let wall = begin.elapsed();
    drop(agent);
    // The time of the launcher and of all that it has started is known when it has ended.
    while has_children() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    [wall, self::cpu() - cpu]
}

/// Runs the command once.
async fn run(agent: &Agent, number: u32) {
    let assignment = assignment(number);
    let (_quiet, requests) = tokio::sync::watch::channel(None);
    let result = agent.execute(&assignment, Output::default(), Stop::new(requests)).await;
    assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
}

/// Whether this process has children.
fn has_children() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    };
    threads.map(children).any(|children| !children.is_empty())
}

/// The processor time of this process and of all that it has waited for.
fn cpu() -> Duration {
    let of = |who| {
        let usage = getrusage(who).unwrap();
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(micros.unsigned_abs())
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

#[tokio::main]
async fn bench(runs: u32, only: Option<String>) {
    let mut ways = vec![
        ("direct", Way::Direct),
        ("sandbox_off", Way::Agent(Level::Off)),
        ("sandbox_required", Way::Agent(Level::Required)),
    ];
    ways.retain(|(name, _)| only.as_deref().is_none_or(|only| only == *name));
    let mut number = 0;
    for at_once in [1, 4] {
        let mut total = vec![[Duration::ZERO; 2]; ways.len()];
        for _ in 0..ROUNDS {
            for (way, total) in ways.iter().zip(&mut total) {
                let [wall, cpu] = measure(way.1, number, runs, at_once).await;
                *total = [total[0] + wall, total[1] + cpu];
                number += runs + 1;
            }
        }
        let runs = f64::from(runs * ROUNDS);
        let rounded = |number: f64| (number * 100.0).round() / 100.0;
        let direct = total[0][0].as_secs_f64();
        for ((name, _), total) in ways.iter().zip(total) {
            let seconds = total[0].as_secs_f64();
            let overhead_ms = (seconds - direct) / runs * f64::from(at_once) * 1000.0;
            let line = serde_json::json!({
                "metric": format!("exec.external.{name}"),
                "at_once": at_once,
                "runs_per_s": (runs / seconds).round(),
                "overhead_ms_a_run": rounded(overhead_ms),
                "cpu_ms_a_run": rounded(total[1].as_secs_f64() / runs * 1000.0),
            });
            println!("{line}");
        }
    }
}

fn main() -> ExitCode {
    if let Some(code) = agent::sandbox::helper_main() {
        return code;
    }
    let arguments = || std::env::args().skip(1).filter(|argument| argument != "--bench");
    let runs = arguments().find_map(|argument| argument.parse().ok());
    let only = arguments().find(|argument| argument.parse::<u32>().is_err());
    bench(runs.unwrap_or(100), only);
    ExitCode::SUCCESS
}
