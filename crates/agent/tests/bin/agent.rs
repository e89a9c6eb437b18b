//! The binary of the agent's tests: the sandbox's helper, the same on a kernel that lacks a
//! feature, and an agent that can be killed.

extern crate punctual_agent as agent;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use agent::output::{Limits, Outputs};
use agent::sandbox::Level;
use agent::{Agent, ExternalOptions, Options, Stop};
use domain::action::Assignment;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// `agent-under-test FOLDER LEVEL ASSIGNMENT` carries the assignment out, and again for each line
/// on its standard input. Commands are in the folder, where the outputs go too.
#[tokio::main]
async fn attempt(folder: PathBuf, level: Level, mut assignment: Assignment) {
    let outputs = Outputs::new(folder.join("outputs"), Limits::default()).unwrap();
    let external = ExternalOptions {
        enabled: true,
        allow: vec![folder.join("commands")],
        sandbox: level,
        ..ExternalOptions::default()
    };
    let agent = Agent::new(Options { external, ..Options::default() });
    loop {
        let output = outputs.open(assignment.run, assignment.attempt);
        let (_quiet, requests) = tokio::sync::watch::channel(None);
        let result = agent.execute(&assignment, output.clone(), Stop::new(requests)).await;
        output.finish().await.unwrap();
        println!("{result:?}");
        assignment.attempt += 1;
        if std::io::stdin().read_line(&mut String::new()).unwrap() == 0 {
            break;
        }
    }
}

/// `agent-under-test without FEATURE …` goes on with the other arguments as if the kernel did not
/// have the feature.
#[expect(clippy::disallowed_methods, reason = "it becomes the helper, under other conditions")]
fn without(feature: &str, arguments: impl Iterator<Item = String>) -> std::io::Error {
    let (call, error) = match feature {
        "namespaces" => (libc::SYS_unshare, libc::EPERM),
        "landlock" => (libc::SYS_landlock_create_ruleset, libc::EOPNOTSUPP),
        "mounts" => (libc::SYS_mount, libc::EACCES),
        other => panic!("{other:?} is none of namespaces, landlock, mounts"),
    };
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let refuse = SeccompAction::Errno(error as u32);
    let rules = [(call, Vec::new())].into();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
    Command::new("/proc/self/exe").args(arguments).exec()
}

fn main() -> ExitCode {
    if let Some(code) = agent::sandbox::helper_main() {
        return code;
    }
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|argument| argument == "without").is_some() {
        let feature = arguments.next().expect("a feature");
        eprintln!("{}", without(&feature, arguments));
        return ExitCode::FAILURE;
    }
    let mut next = || arguments.next().expect("FOLDER LEVEL ASSIGNMENT");
    let folder = PathBuf::from(next());
    let level = serde_json::from_value(next().into()).expect("a level");
    let assignment = serde_json::from_str(&next()).expect("an assignment");
    attempt(folder, level, assignment);
    ExitCode::SUCCESS
}
