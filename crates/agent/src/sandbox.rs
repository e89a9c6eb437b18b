//! The sandbox of external commands.
//!
//! The agent never forks itself: it is large and has threads. It starts its own binary again, once,
//! as a launcher with one thread:
//!
//! ```text
//! agent ──spawn──> launcher ──fork──> init ──spawn──> command ──> …
//!   │ └── socket ─────┘                │
//!   └──────────── socket ──────────────┘
//! ```
//!
//! - The **launcher** does once what is the same for all commands: it enters namespaces and builds
//!   the root directory. The agent asks it for an init process when it has none that is idle.
//! - An **init** process is the first one of a pid namespace. The agent sends it a command, with the
//!   descriptors that the command needs. It starts the command; reports what is in force; and when
//!   the command ends, or the agent asks, or the agent is gone and the socket with it, kills what is
//!   left. Then it takes the next command, unless commands have the same user and could touch it.
//! - The process of the **command** puts everything else in force on itself before it executes the
//!   command.
//!
//! A process that dies takes those to its right with it: the agent and the launcher through the
//! parent-death signal, an init process because a namespace ends with its first process. Where
//! there is no pid namespace, an **outer** helper stands between the launcher and the init process.
//! It adopts whatever loses its parent, and ends it.
//!
//! A feature that the kernel does not offer is left out and reported, or the command is refused, as
//! the administrator configured.

mod bpf;
pub(crate) mod cgroup;
mod confine;
mod files;
mod init;
mod launcher;
pub(crate) mod layout;
mod root;
pub(crate) mod scratch;
pub(crate) mod spec;
mod start;
mod supervise;
mod syscalls;
pub(crate) mod unpack;

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

pub use spec::{Limits, User};

/// The argument that makes the binary a helper.
pub(crate) const MARK: &str = "__exec";

/// How much of the sandbox there must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// A command is refused unless everything that protects others from it is in force.
    #[default]
    Required,
    /// The features that the kernel offers are in force.
    BestEffort,
    /// Nothing is, apart from limits.
    Off,
}

/// One thing that the sandbox puts in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// It is not root.
    User,
    /// It has no capabilities.
    Capabilities,
    /// It gains no privileges by executing something.
    NoNewPrivileges,
    /// It sees only its own processes, and none of them outlives it.
    Processes,
    /// File access is limited to the allowed paths.
    Files,
    /// The server's own files are out of reach.
    ProtectedFiles,
    /// It cannot use the parts of the kernel that commands have no business with.
    SystemCalls,
    /// It has no network.
    Network,
    /// Its root directory has only the files that it needs, and nothing else of the machine.
    Root,
    /// It has a scratch directory of its own, with a limited size.
    Scratch,
    /// It has its own shared memory and semaphores.
    Ipc,
    /// Its limit of processes counts its own only.
    OwnCount,
    /// Its limit of memory counts shared memory as well.
    Memory,
    /// A control group holds it.
    ControlGroup,
}

impl Feature {
    /// Whether a command is refused without it when the sandbox is required.
    pub fn is_required(self) -> bool {
        match self {
            Feature::User
            | Feature::Capabilities
            | Feature::NoNewPrivileges
            | Feature::Processes
            | Feature::Files
            | Feature::ProtectedFiles
            | Feature::SystemCalls
            | Feature::Network
            | Feature::Root
            | Feature::Scratch => true,
            Feature::Ipc | Feature::OwnCount | Feature::Memory | Feature::ControlGroup => false,
        }
    }

    /// The name in settings, reports and APIs.
    pub fn name(self) -> &'static str {
        match self {
            Feature::User => "user",
            Feature::Capabilities => "capabilities",
            Feature::NoNewPrivileges => "no_new_privileges",
            Feature::Processes => "processes",
            Feature::Files => "files",
            Feature::ProtectedFiles => "protected_files",
            Feature::SystemCalls => "system_calls",
            Feature::Network => "network",
            Feature::Root => "root",
            Feature::Scratch => "scratch",
            Feature::Ipc => "ipc",
            Feature::OwnCount => "own_count",
            Feature::Memory => "memory",
            Feature::ControlGroup => "control_group",
        }
    }
}

/// The sandbox features of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Features in force, and how.
    pub in_force: BTreeMap<Feature, String>,
    /// Missing features, and why.
    pub missing: BTreeMap<Feature, String>,
}

impl Report {
    /// Notes that something is in force, and how, or that it is not, and why.
    pub(crate) fn note<E: ToString>(&mut self, feature: Feature, outcome: Result<String, E>) {
        match outcome {
            Ok(how) => {
                self.missing.remove(&feature);
                self.in_force.insert(feature, how);
            }
            Err(why) => {
                self.in_force.remove(&feature);
                self.missing.insert(feature, why.to_string());
            }
        }
    }

    /// The required features that are missing, in words; none when all are in force.
    pub fn lacks(&self) -> Option<String> {
        let lacking = self.missing.iter().filter(|(feature, _)| feature.is_required());
        let lacking: Vec<_> =
            lacking.map(|(feature, why)| format!("{} ({why})", feature.name())).collect();
        (!lacking.is_empty()).then(|| lacking.join(", "))
    }
}

/// Reports the features that this machine supports, whatever is configured.
pub async fn probe() -> Result<Report, String> {
    crate::ExternalOptions::default().probe().await
}

/// The helper's part of the binary: call it first in `main`, and return its result. None means that
/// the process is no helper.
pub fn helper_main() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(MARK) => {}
        Some(unpack::MARK) => return Some(unpack::run(&arguments.next().unwrap_or_default())),
        _ => return None,
    }
    Some(match launcher::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("launcher of external commands failed: {error}");
            ExitCode::FAILURE
        }
    })
}
