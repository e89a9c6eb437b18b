//! External commands: their environment, their restrictions, and that no process of them stays.
//!
//! Every command is a small shell script. Its processes are found again by the run's id in their
//! environment.

mod attack;
mod ends;
mod killed;
mod lacking;
mod launcher;
mod memory;
mod policy;
mod scratch;
mod walls;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent::output::{Limits, Outputs, Stream};
use agent::sandbox::Level;
use agent::{Agent, ExternalOptions, Options, StaticSecrets, Stop};
use domain::action::{Action, Assignment, ExternalAction};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{AttemptEnd, AttemptResult};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;
use uuid::Uuid;

/// The binary that is the sandbox's helper.
pub const HELPER: &str = env!("CARGO_BIN_EXE_agent-under-test");

/// A machine with one folder of commands.
struct World {
    dir: TempDir,
    outputs: Outputs,
    options: ExternalOptions,
    secrets: StaticSecrets,
}

/// The result of a command.
struct Outcome {
    result: AttemptResult,
    stdout: String,
    stderr: String,
    details: Value,
}

/// A run that no other test of any process has.
fn new_run() -> RunId {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let process = u128::from(std::process::id());
    RunId(Uuid::from_u128(process << 64 | u128::from(COUNT.fetch_add(1, Ordering::Relaxed))))
}

impl World {
    fn new() -> Self {
        Self::with_level(Level::Required)
    }

    fn with_level(level: Level) -> Self {
        // Not in /tmp, which is where commands have their scratch directories.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        open_to_all(dir.path());
        for name in ["commands", "work", "data"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            open_to_all(&dir.path().join(name));
        }
        fs::write(dir.path().join("data/master.key"), "do not tell").unwrap();
        let outputs = Outputs::new(dir.path().join("outputs"), Limits::default()).unwrap();
        let options = ExternalOptions {
            enabled: true,
            allow: vec![dir.path().join("commands")],
            protected: vec![dir.path().join("data")],
            sandbox: level,
            helper: HELPER.into(),
            ..ExternalOptions::default()
        };
        World { dir, outputs, options, secrets: StaticSecrets::default() }
    }

    /// Writes an executable file.
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join("commands").join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// An assignment that runs a Python program.
    fn python(&self, program: &str) -> Assignment {
        let path = self.file("program", &format!("#!/usr/bin/python3\n{program}\n"));
        assignment(path.to_str().unwrap())
    }

    /// An assignment that runs a script.
    fn script(&self, script: &str) -> Assignment {
        let path = self.file("script", &format!("#!/bin/sh\n{script}\n"));
        assignment(path.to_str().unwrap())
    }

    fn agent(&self) -> Agent {
        let secrets = Arc::new(StaticSecrets(self.secrets.0.clone()));
        Agent::new(Options { secrets, external: self.options.clone(), ..Options::default() })
    }

    /// Runs it to its end.
    async fn run(&self, assignment: &Assignment) -> Outcome {
        let (_quiet, requests) = watch::channel(None);
        self.run_until(assignment, Stop::new(requests)).await
    }

    /// Runs it to its end, or until it is stopped. Nothing of it may be left.
    async fn run_until(&self, assignment: &Assignment, stop: Stop) -> Outcome {
        self.run_by(&self.agent(), assignment, stop).await
    }

    /// The same by an agent that has other runs as well.
    async fn run_by(&self, agent: &Agent, assignment: &Assignment, stop: Stop) -> Outcome {
        let output = self.outputs.open(assignment.run, assignment.attempt);
        let result = agent.execute(assignment, output.clone(), stop).await;
        output.finish().await.unwrap();
        assert_eq!(processes(assignment.run), [""; 0], "left: {result:?}");
        let details = result.details.as_deref().map(|text| serde_json::from_str(text).unwrap());
        let outcome = Outcome {
            stdout: self.text(assignment.run, Stream::Stdout),
            stderr: self.text(assignment.run, Stream::Stderr),
            details: details.unwrap_or_default(),
            result,
        };
        assert_eq!(outcome.details.get("survivors"), None);
        outcome
    }

    fn text(&self, run: RunId, stream: Stream) -> String {
        let slice = self.outputs.read(run, 1, 0, usize::MAX, Some(stream)).unwrap();
        String::from_utf8_lossy(&slice.bytes).into_owned()
    }

    /// Waits until the output of a command contains this text.
    async fn has_said(&self, run: RunId, words: &str) {
        wait_for(&format!("{words:?}"), || self.text(run, Stream::Stdout).contains(words)).await;
    }
}

pub fn assignment(command: &str) -> Assignment {
    Assignment {
        effect: None,
        run: new_run(),
        job: JobId(Uuid::from_u128(1)),
        job_name: "nightly".into(),
        tenant: TenantId(Uuid::from_u128(2)),
        attempt: 1,
        fence: 7,
        scheduled_for: Timestamp::UNIX_EPOCH,
        deadline: Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1),
        grace_period: SignedDuration::from_secs(5),
        shard: String::new(),
        run_as: None,
        parameters: [("day".to_owned(), Value::from("monday"))].into(),
        action: Action::External(ExternalAction {
            command: command.into(),
            arguments: Vec::new(),
            environment: [].into(),
        }),
    }
}

/// The action of an assignment, to be changed.
fn action(assignment: &mut Assignment) -> &mut ExternalAction {
    match &mut assignment.action {
        Action::External(action) => action,
        other => panic!("{other:?}"),
    }
}

pub fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
}

/// The names of the processes that have a run's id in their environment.
pub fn processes(run: RunId) -> Vec<String> {
    let id = run.to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        // Most files are no processes, and some processes end meanwhile.
        let Ok(environment) = fs::read(path.join("environ")) else { continue };
        if environment.windows(id.len()).any(|window| window == id.as_bytes()) {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            found.push(format!("{} {}", path.display(), name.trim()));
        }
    }
    found
}

/// Looks again and again until something is so.
pub async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited a minute for {what}");
}

/// Whether a feature is in force; prints a note when it is not, because the test then proves less.
fn has(outcome: &Outcome, feature: &str) -> bool {
    let report = &outcome.details["sandbox"]["report"];
    match report["in_force"].get(feature) {
        Some(how) => {
            println!("exercised: {feature} ({how})");
            true
        }
        None => {
            println!("NOT exercised: {feature} ({})", report["missing"][feature]);
            false
        }
    }
}

/// The errors that policy decides. The others may be gone at the next attempt.
const POLICY: [&str; 5] = [
    "COMMAND_NOT_ALLOWED",
    "EXTERNAL_DISABLED",
    "SANDBOX_UNAVAILABLE",
    "SECRET_IN_ARGUMENTS",
    "VARIABLE_NOT_ALLOWED",
];

#[track_caller]
fn assert_refused(outcome: &Outcome, code: &str, words: &str) {
    assert_eq!(outcome.result.end, AttemptEnd::Failed, "{:?}", outcome.result);
    let error = outcome.result.error.as_ref().unwrap();
    assert_eq!(error.to_string(), code, "{}", outcome.result.message);
    assert_eq!(error.is_refusal(), POLICY.contains(&code), "{code}");
    assert!(outcome.result.message.contains(words), "{}", outcome.result.message);
    assert_eq!(outcome.stdout, "");
}
