//! Unpacks an archive: a process of its own that may write to one empty folder and nothing else.
//!
//! The agent starts its own binary with the archive as standard input and the folder as working
//! directory. The process gives up every right before it reads the first byte: the archive comes from
//! a client that is not trusted, and its reader is the part that an attack would aim at.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::spec::Limits;
use super::syscalls::{Sockets, SyscallFilter};
use super::{Level, confine, launcher};
use crate::artifact::archive::{self, ArchiveContent, ArchiveError, ArchiveFile, ArchiveTarget};

/// The argument that makes the binary unpack.
pub(super) const MARK: &str = "__unpack";

/// What the process may use. Writing is bounded by what an archive may contain.
const LIMITS: Limits = Limits {
    cpu_seconds: 300,
    memory_bytes: 256 << 20,
    processes: 1,
    open_files: 64,
    file_bytes: domain::artifact::UNPACKED_BYTES_MAX,
    scratch_bytes: 0,
};

/// The answer of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Unpacked {
    /// All of it is on disk.
    Done(ArchiveContent),
    /// The archive is at fault.
    Invalid(String),
    /// The machine is.
    Failed(String),
}

/// Lets a process unpack an archive into an empty folder. Blocks until it has ended; the process is
/// killed with the thread that waits for it.
pub(crate) fn unpack(helper: &Path, level: Level, archive: File, folder: &Path) -> Unpacked {
    let level = match level {
        Level::Required => "required",
        Level::BestEffort | Level::Off => "best-effort",
    };
    #[expect(clippy::disallowed_methods, reason = "archives are unpacked by a confined process")]
    let done = Command::new(helper)
        .args([MARK, level])
        .env_clear()
        .current_dir(folder)
        .stdin(Stdio::from(archive))
        .output();
    let done = match done {
        Ok(done) => done,
        Err(error) => return Unpacked::Failed(format!("the unpacking process: {error}")),
    };
    serde_json::from_slice(&done.stdout).unwrap_or_else(|_| {
        let said = String::from_utf8_lossy(&done.stderr);
        Unpacked::Failed(format!("the unpacking process: {}: {}", done.status, said.trim()))
    })
}

/// The process.
pub(super) fn run(level: &str) -> ExitCode {
    let unpacked = match confine(level == "required").and_then(|()| write()) {
        Ok(content) => Unpacked::Done(content),
        Err(ArchiveError::Invalid(problem)) => Unpacked::Invalid(problem),
        Err(ArchiveError::Target(error)) => Unpacked::Failed(error.to_string()),
    };
    match serde_json::to_writer(io::stdout(), &unpacked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn failed(what: &str, error: impl std::fmt::Display) -> ArchiveError {
    ArchiveError::Target(io::Error::other(format!("{what}: {error}")))
}

/// Gives up every right but that to write below the working directory.
fn confine(is_required: bool) -> Result<(), ArchiveError> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| failed("parent", error))?;
    launcher::close_others(&io::stdin()).map_err(|error| failed("descriptors", error))?;
    let restricted = restrict();
    if let (true, Err(problem)) = (is_required, &restricted) {
        return Err(failed("this machine cannot confine the unpacking of artifacts", problem));
    }
    confine::limit(&LIMITS).map_err(|error| failed("limits", error))
}

fn restrict() -> Result<(), String> {
    let everything = AccessFs::from_all(ABI::V6);
    let write = AccessFs::ReadDir
        | AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::MakeDir
        | AccessFs::MakeReg;
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)
        .and_then(|rules| rules.handle_access(AccessNet::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(["."], write)));
    let rules = rules.map_err(|error| format!("landlock: {error}"))?;
    confine::drop_capabilities().map_err(|error| format!("capabilities: {error}"))?;
    prctl::set_no_new_privs().map_err(|error| format!("no_new_privs: {error}"))?;
    let status = rules.restrict_self().map_err(|error| format!("landlock: {error}"))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("landlock: the kernel has none, or it is not enabled".to_owned());
    }
    SyscallFilter::of_launcher(Sockets::None).enforce()?;
    SyscallFilter::of_command(false).enforce()
}

/// Unpacks standard input into the working directory, and waits until it is on disk.
fn write() -> Result<ArchiveContent, ArchiveError> {
    let stdin = io::stdin();
    let archive = stdin.as_fd().try_clone_to_owned().map(File::from);
    let archive = archive.map_err(|error| failed("archive", error))?;
    let bytes = archive.metadata().map_err(|error| failed("archive", error))?.len();
    let mut folder = FolderTarget::default();
    let content = archive::read(BufReader::new(archive), bytes, &mut folder)?;
    let done = || -> io::Result<()> {
        // The deepest first: what is in a folder that cannot be written cannot be changed.
        for folder in folder.0.iter().rev() {
            fs::set_permissions(folder, Permissions::from_mode(0o555))?;
        }
        Ok(rustix::fs::syncfs(File::open(".")?)?)
    };
    done().map_err(ArchiveError::Target)?;
    Ok(content)
}

/// The working directory. Nothing else writes there, and no link is ever made in it.
#[derive(Default)]
struct FolderTarget(Vec<String>);

impl ArchiveTarget for FolderTarget {
    fn folder(&mut self, path: &str) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o755).create(path)?;
        self.0.push(path.to_owned());
        Ok(())
    }

    fn file(&mut self, path: &str, file: ArchiveFile<'_>) -> io::Result<()> {
        let mode = if file.is_executable { 0o555 } else { 0o444 };
        let mut options = OpenOptions::new();
        let mut to = options.write(true).create_new(true).mode(mode).open(path)?;
        io::copy(file.content, &mut to)?;
        Ok(())
    }
}
