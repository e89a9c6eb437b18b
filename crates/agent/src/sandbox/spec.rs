//! The messages between the agent and its helpers.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::layout::Layout;
use super::{Level, Report};

/// The longest message.
pub const MESSAGE_BYTES_MAX: u32 = 16 << 20;

/// Asks the init process to end the command: first this way,
pub const TERMINATE: u8 = b't';
/// and then the other.
pub const KILL: u8 = b'k';

/// The byte that asks the launcher for an init process. It carries the socket to it.
pub const REQUEST: u8 = b'r';
/// How many descriptors a request to an init process has at most: the two output streams of the
/// command, the pipe of its result if it runs an artifact, and the file by which it enters its
/// control group. Its first byte carries them.
pub const REQUEST_DESCRIPTORS: usize = 4;

/// Arguments that stand for what is known when the command is started: the folder of the artifact,
/// the file with the context, and the descriptor of the result.
pub const FOLDER_MARK: &str = "\u{1}folder";
pub const CONTEXT_MARK: &str = "\u{1}context";
pub const RESULT_MARK: &str = "\u{1}result";

/// For the launcher, once: what all commands have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub sandbox: Level,
    pub deny_network: bool,
    /// Where commands run; their scratch directory if absent.
    pub working_directory: Option<PathBuf>,
    /// The file system that commands see.
    pub layout: Layout,
    pub limits: Limits,
    pub user: Option<User>,
}

/// From the launcher, once: it takes requests now.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    /// Whether commands get a root directory of their own, and a scratch directory in it.
    pub has_root: bool,
    /// Whether each command has a pid namespace, in which all its processes can be killed.
    pub has_namespace: bool,
    /// Whether an init process starts one command after another.
    pub is_reusable: bool,
}

/// For an init process: the settings that differ for each command.
#[derive(Debug, Serialize, Deserialize)]
pub struct Spec {
    /// None only queries which features would be in force.
    pub command: Option<Command>,
    /// The scratch directory, where the command has no root of its own.
    pub scratch: Option<PathBuf>,
    /// Whether a control group limits the memory of all its processes together.
    pub memory_is_grouped: bool,
}

/// The command to start.
#[derive(Debug, Serialize, Deserialize)]
pub struct Command {
    /// Where it is, without any link.
    pub path: PathBuf,
    /// The first argument, `argv[0]`.
    pub name: String,
    pub arguments: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub stdin: String,
    /// What it runs, if that is an artifact.
    pub artifact: Option<ArtifactMount>,
}

/// The artifact of a command.
#[derive(Debug, Serialize, Deserialize)]
pub struct ArtifactMount {
    /// Where it is unpacked on the machine.
    pub folder: PathBuf,
    /// The document about the run.
    pub context: String,
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
    /// The size of the scratch directory.
    pub scratch_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            cpu_seconds: 3600,
            memory_bytes: 1 << 30,
            processes: 128,
            open_files: 1024,
            file_bytes: 1 << 30,
            scratch_bytes: 256 << 20,
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
    /// The user of this name, or of the numbers `UID:GID`. The error has the valid forms.
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

/// For the agent, about one command.
#[derive(Debug, Serialize, Deserialize)]
pub enum HelperMessage {
    /// The features in force.
    Report(Report),
    /// That was all, because there is no command.
    Probed,
    /// The command does not start.
    Refused { code: String, message: String },
    /// The command has ended.
    Ended(Ended),
    /// Number of processes that had lost their parents and were killed.
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
    /// Whether none of its processes exists any more. Otherwise the end of the socket shows it.
    pub is_all: bool,
}

/// Sends a message.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&encode(message)?)
}

/// A message as it is sent.
pub fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = vec![0; 4];
    serde_json::to_writer(&mut text, message)?;
    let length = u32::try_from(text.len() - 4).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("the message is too long"))?;
    text[..4].copy_from_slice(&length.to_be_bytes());
    Ok(text)
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
