//! What the agent and its helpers say to each other.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Level, Report};

/// The longest message.
pub const MESSAGE_BYTES_MAX: u32 = 16 << 20;

/// Asks the inner helper to end the command: first this way,
pub const TERMINATE: u8 = b't';
/// and then the other.
pub const KILL: u8 = b'k';

/// For the outer helper.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outer {
    pub sandbox: Level,
    pub deny_network: bool,
}

/// What the outer helper has done, for the inner one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Namespaces {
    pub entered: bool,
    /// Whether one of them is a user namespace.
    pub has_user: bool,
    pub has_network: bool,
    /// Why they were not entered.
    pub problem: String,
}

/// For the inner helper.
#[derive(Debug, Serialize, Deserialize)]
pub struct Spec {
    pub sandbox: Level,
    pub deny_network: bool,
    /// None asks only what would be in force.
    pub command: Option<Command>,
    pub working_directory: PathBuf,
    /// What it may read and execute, besides the folders of the system.
    pub readable: Vec<PathBuf>,
    /// What it may read and write.
    pub writable: Vec<PathBuf>,
    /// What it may never see.
    pub protected: Vec<PathBuf>,
    pub limits: Limits,
    pub user: Option<User>,
}

/// What to start.
#[derive(Debug, Serialize, Deserialize)]
pub struct Command {
    /// Where it is, without any link.
    pub path: PathBuf,
    /// What it is called, and its arguments.
    pub name: String,
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub stdin: String,
}

/// How much of the machine a command may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Processor time of each process, in seconds.
    pub cpu_seconds: u64,
    /// Memory: of all processes together where there is a control group, of each one elsewhere.
    pub memory_bytes: u64,
    /// How many processes and threads.
    pub processes: u64,
    /// How many open files, in each process.
    pub open_files: u64,
    /// The size of a file.
    pub file_bytes: u64,
    /// The size of its own folder for temporary files.
    pub temporary_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            cpu_seconds: 3600,
            memory_bytes: 1 << 30,
            processes: 128,
            open_files: 1024,
            file_bytes: 1 << 30,
            temporary_bytes: 256 << 20,
        }
    }
}

/// A user of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl User {
    /// The user of this name, or of the numbers `UID:GID`. The error says what would be right.
    pub fn find(text: &str) -> Result<Self, String> {
        if let Some((uid, gid)) = text.split_once(':') {
            let right = "a name, or two numbers: UID:GID";
            let number = |text: &str| text.trim().parse().map_err(|_| right.to_owned());
            return Ok(User { uid: number(uid)?, gid: number(gid)? });
        }
        match nix::unistd::User::from_name(text) {
            Ok(Some(user)) => Ok(User { uid: user.uid.as_raw(), gid: user.gid.as_raw() }),
            _ => Err("a user of this machine, or two numbers: UID:GID".to_owned()),
        }
    }
}

/// For the agent.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// What is in force; the command is about to start.
    Report(Report),
    /// The command does not start.
    Refused { code: String, message: String },
    /// The command has ended.
    Ended(Ended),
    /// So many processes had lost their parents and were killed.
    Swept(u32),
}

/// How a command has ended.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub user_ms: u64,
    pub system_ms: u64,
    /// Of the largest process.
    pub peak_memory_bytes: u64,
    /// How many processes it has left behind, which were killed.
    pub left_behind: u32,
}

/// Sends a message.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&encode(message)?)
}

/// A message as it is sent.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("the message is too long"))?;
    Ok([&length.to_be_bytes()[..], &text].concat())
}

/// Takes a message, and not a byte of what follows it.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::other("the message is too long"));
    }
    let mut text = vec![0; length as usize];
    from.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}
