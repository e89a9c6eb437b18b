//! The walls around external commands.
//!
//! The agent never forks itself: it is large and has threads. It starts its own binary again, as a
//! small helper with one thread, which starts itself once more inside new namespaces:
//!
//! ```text
//! agent ──spawn──> outer ──spawn──> inner ──spawn──> command ──> …
//!   │                │                │
//!   └──── socket ────┴────────────────┘
//! ```
//!
//! - **outer** enters the namespaces and adopts whatever loses its parent, if there is no pid
//!   namespace to do so.
//! - **inner** is the first process of the pid namespace. It puts everything else in force on
//!   itself, so that the command is born with it; says over the socket what that is; starts the
//!   command; and when the command ends, or the agent asks, or the agent is gone and the socket
//!   with it, kills what is left.
//!
//! Whoever dies takes those to its right with it: the agent through the socket, the outer helper
//! through the parent-death signal, the inner one because a namespace ends with its first process.
//! What the kernel does not offer is left out and reported, or refused, as the administrator wishes.

pub(crate) mod cgroup;
mod files;
mod inner;
mod mounts;
mod outer;
pub(crate) mod spec;
mod supervise;
mod syscalls;

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
    /// What the kernel offers is in force.
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
    /// It reads and writes only what it may.
    Files,
    /// The server's own files are out of reach.
    ProtectedFiles,
    /// It cannot use the parts of the kernel that commands have no business with.
    SystemCalls,
    /// It has no network.
    Network,
    /// It has its own file system mounts.
    Mounts,
    /// It has its own folder for temporary files.
    Temporary,
    /// It has its own shared memory and semaphores.
    Ipc,
    /// Its limit of processes counts its own only.
    OwnCount,
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
            | Feature::Network => true,
            Feature::Mounts
            | Feature::Temporary
            | Feature::Ipc
            | Feature::OwnCount
            | Feature::ControlGroup => false,
        }
    }

    /// Its name at every door.
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
            Feature::Mounts => "mounts",
            Feature::Temporary => "temporary",
            Feature::Ipc => "ipc",
            Feature::OwnCount => "own_count",
            Feature::ControlGroup => "control_group",
        }
    }
}

/// What is in force for a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What is, and how.
    pub in_force: BTreeMap<Feature, String>,
    /// What is not, and why.
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

    /// What is missing that must not be, in words; none when all is well.
    pub fn lacks(&self) -> Option<String> {
        let lacking = self.missing.iter().filter(|(feature, _)| feature.is_required());
        let lacking: Vec<_> =
            lacking.map(|(feature, why)| format!("{} ({why})", feature.name())).collect();
        (!lacking.is_empty()).then(|| lacking.join(", "))
    }
}

/// What this machine could put in force for a command, whatever is configured.
pub async fn probe() -> Result<Report, String> {
    crate::ExternalOptions::default().probe().await
}

/// The helper's part of the binary: call it first in `main`, and return what it returns. None
/// means that the process is no helper.
pub fn helper_main() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(MARK) {
        return None;
    }
    let code = match arguments.next() {
        None => outer::run(),
        Some(namespaces) => inner::run(&namespaces),
    };
    Some(match code {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the sandbox's helper: {error}");
            ExitCode::FAILURE
        }
    })
}
