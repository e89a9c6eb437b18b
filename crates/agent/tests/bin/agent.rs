//! What the tests of the agent start: the sandbox's helper, and an agent that can be killed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use agent::output::{Limits, Outputs};
use agent::sandbox::Level;
use agent::{Agent, ExternalOptions, Options, StaticSecrets, Stop};
use domain::action::Assignment;

/// `agent-under-test FOLDER LEVEL ASSIGNMENT` carries the assignment out. Commands and working
/// directory are in the folder, where the outputs go too.
#[tokio::main]
async fn attempt(folder: PathBuf, level: Level, assignment: Assignment) {
    let outputs = Outputs::new(folder.join("outputs"), Limits::default()).unwrap();
    let external = ExternalOptions {
        enabled: true,
        allow: vec![folder.join("commands")],
        working_directory: folder.join("work"),
        sandbox: level,
        ..ExternalOptions::default()
    };
    let agent = Agent::new(Options { secrets: Arc::new(StaticSecrets::default()), external });
    let output = outputs.open(assignment.run, assignment.attempt);
    let (_quiet, requests) = tokio::sync::watch::channel(None);
    let result = agent.execute(&assignment, output.clone(), Stop::new(requests)).await;
    output.finish().await.unwrap();
    println!("{result:?}");
}

fn main() -> ExitCode {
    if let Some(code) = agent::sandbox::helper_main() {
        return code;
    }
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("FOLDER LEVEL ASSIGNMENT");
    let folder = PathBuf::from(next());
    let level = serde_json::from_value(next().into()).expect("a level");
    let assignment = serde_json::from_str(&next()).expect("an assignment");
    attempt(folder, level, assignment);
    ExitCode::SUCCESS
}
