//! The inner helper: puts everything in force on itself and starts the command.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, chdir, getegid, geteuid, setgroups, setresgid, setresuid, setsid};
use rustix::fs::{MemfdFlags, Mode, OFlags, ResolveFlags, memfd_create, openat2};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::spec::{self, Limits, Message, Namespaces, Spec};
use super::{Feature, Level, Report, files, mounts, outer, supervise, syscalls};

/// Why a command does not start.
struct Refusal {
    code: &'static str,
    message: String,
}

pub(super) fn run(namespaces: &str) -> io::Result<()> {
    let namespaces: Namespaces = serde_json::from_str(namespaces)?;
    let mut socket = outer::socket()?;
    let spec: Spec = spec::receive(&mut socket)?;
    let _ = setsid();
    // If memory runs out, the command goes first.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    match begin(&mut socket, &spec, &namespaces) {
        Ok(None) => Ok(()),
        Ok(Some(command)) => {
            let ended = supervise::watch(&mut socket, command, namespaces.entered)?;
            spec::send(&mut socket, &Message::Ended(ended))
        }
        Err(Refusal { code, message }) => {
            spec::send(&mut socket, &Message::Refused { code: code.to_owned(), message })
        }
    }
}

/// Puts everything in force, says what that is, and starts the command.
fn begin(
    socket: &mut UnixStream,
    spec: &Spec,
    namespaces: &Namespaces,
) -> Result<Option<u32>, Refusal> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Refusal {
        code: "SANDBOX_FAILED",
        message: format!("{what}: {error}"),
    };
    let mut report = Report::default();
    let stdin = stdin(spec).map_err(|error| failed("the parameters", &error))?;
    let mut has_own_proc = false;
    if spec.sandbox != Level::Off {
        note_namespaces(&mut report, spec, namespaces);
        has_own_proc = mounts::arrange(spec, namespaces, &mut report);
    }
    let program = spec.command.as_ref().map(|command| open(&command.path)).transpose()?;
    chdir(&spec.working_directory).map_err(|error| Refusal {
        code: "WORKING_DIRECTORY",
        message: format!("{}: {error}", spec.working_directory.display()),
    })?;
    let has_temporary = report.in_force.contains_key(&Feature::Temporary);
    let rules = (spec.sandbox != Level::Off)
        .then(|| files::rules(spec, program.as_ref(), has_own_proc, has_temporary));
    let change = change_user(spec);
    if spec.sandbox == Level::Off {
        change.map_err(|error| failed("the user", &error))?;
    } else {
        let uid = geteuid();
        let is_root = if uid.is_root() { Err("it is root".to_owned()) } else { Ok(()) };
        report.note(Feature::User, change.and(is_root).map(|()| format!("uid {uid}")));
        let own_count = if namespaces.has_user { Ok(()) } else { own_user_namespace() };
        report.note(Feature::OwnCount, own_count.map(|()| "user namespace".to_owned()));
    }
    limit(&spec.limits).map_err(|error| failed("the limits", &error))?;
    if let Some(rules) = rules {
        report.note(Feature::Capabilities, drop_capabilities().map(|()| "none".to_owned()));
        let no_new = prctl::set_no_new_privs().map(|()| "no_new_privs".to_owned());
        report.note(Feature::NoNewPrivileges, no_new);
        rules.enforce(spec, &mut report);
        let filtered = syscalls::filter(spec.deny_network);
        if spec.deny_network && filtered.is_ok() && !namespaces.has_network {
            report.note::<&str>(Feature::Network, Ok("no sockets (seccomp)".to_owned()));
        }
        report.note(Feature::SystemCalls, filtered);
    }
    if spec.sandbox != Level::Off {
        // The command is of the same user and may not look into this process.
        let _ = prctl::set_dumpable(false);
    }
    // A change of user takes this away, so it comes late. Should the outer helper have died before,
    // the socket will tell.
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| failed("the death signal", &error))?;
    let lacks = report.lacks();
    spec::send(socket, &Message::Report(report)).map_err(|error| failed("the report", &error))?;
    if let (Level::Required, Some(lacks)) = (spec.sandbox, lacks) {
        let message = format!(
            "this machine cannot enforce: {lacks}. Change the machine, or allow the sandbox to be best-effort"
        );
        return Err(Refusal { code: "SANDBOX_UNAVAILABLE", message });
    }
    let (Some(command), Some(program)) = (&spec.command, program) else { return Ok(None) };
    start(command, &program, stdin, has_temporary, &spec.working_directory).map(Some)
}

fn note_namespaces(report: &mut Report, spec: &Spec, namespaces: &Namespaces) {
    let entered = |name: &str| match namespaces.entered {
        true => Ok(format!("{name} namespace")),
        false => Err(namespaces.problem.clone()),
    };
    report.note(Feature::Processes, entered("pid"));
    report.note(Feature::Ipc, entered("ipc"));
    if spec.deny_network {
        report.note(Feature::Network, entered("network"));
    }
}

/// The command's file, reached without any link, so that it is the one that was allowed.
fn open(path: &Path) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::PATH;
    let program = openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(|error| Refusal {
        code: "COMMAND_NOT_ALLOWED",
        message: format!("command: {} changed while it was looked at: {error}", path.display()),
    })?;
    // An interpreter opens its script again by this descriptor. A program does not need it, nor
    // does a script that cannot be read.
    let mut begin = [0; 2];
    let file = File::open(format!("/proc/self/fd/{}", program.as_raw_fd()));
    let is_script =
        file.and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *b"#!";
    if !is_script {
        let _ = fcntl_setfd(&program, FdFlags::CLOEXEC);
    }
    Ok(program)
}

/// The parameters, as a file that is read from its beginning.
fn stdin(spec: &Spec) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("parameters", MemfdFlags::CLOEXEC)?);
    if let Some(command) = &spec.command {
        file.write_all(command.stdin.as_bytes())?;
        file.rewind()?;
    }
    Ok(file.into())
}

/// Becomes the user that commands run as.
fn change_user(spec: &Spec) -> Result<(), String> {
    let Some(user) = spec.user else { return Ok(()) };
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    if (geteuid(), getegid()) == (uid, gid) {
        return Ok(());
    }
    let change = || -> nix::Result<()> {
        setgroups(&[])?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)
    };
    change().map_err(|error| format!("the agent cannot become user {uid}: {error}"))
}

/// A user namespace of its own, where the limit of processes counts only those of the command.
fn own_user_namespace() -> io::Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    // The maps belong to root otherwise, after a change of user.
    prctl::set_dumpable(true)?;
    unshare(CloneFlags::CLONE_NEWUSER)?;
    outer::map_self(uid.as_raw(), gid.as_raw())
}

fn drop_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        // Needs a capability that may be gone already; without any, this set gives nothing.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

fn limit(limits: &Limits) -> nix::Result<()> {
    for (resource, value) in [
        (Resource::RLIMIT_CPU, limits.cpu_seconds),
        // Not the address space: some run times reserve far more than they use.
        (Resource::RLIMIT_DATA, limits.memory_bytes),
        // The inner helper is one of them.
        (Resource::RLIMIT_NPROC, limits.processes.saturating_add(1)),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Resource::RLIMIT_CORE, 0),
    ] {
        let (_, most) = getrlimit(resource)?;
        let value = value.min(most);
        setrlimit(resource, value, value)?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the helper exists to start a process")]
fn start(
    command: &spec::Command,
    program: &OwnedFd,
    stdin: OwnedFd,
    has_temporary: bool,
    working_directory: &Path,
) -> Result<u32, Refusal> {
    let temporary = if has_temporary { Path::new("/tmp") } else { working_directory };
    let child = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
        .arg0(&command.name)
        .args(&command.arguments)
        .env_clear()
        .env("TMPDIR", temporary)
        .envs(&command.environment)
        .stdin(Stdio::from(stdin))
        .process_group(0)
        .spawn();
    child.map(|child| child.id()).map_err(|error| {
        let path = command.path.display();
        let (code, problem) = match error.raw_os_error() {
            Some(libc::ENOENT) => (
                "INTERPRETER_NOT_FOUND",
                "names an interpreter in its first line, or needs a loader, that does not exist"
                    .to_owned(),
            ),
            Some(libc::ENOEXEC) => (
                "EXEC_FORMAT_ERROR",
                "is neither a program for this machine nor a script that begins with #!".to_owned(),
            ),
            Some(libc::EACCES) => {
                ("PERMISSION_DENIED", "may not be executed by the user of commands".to_owned())
            }
            Some(libc::E2BIG) => (
                "ARGUMENTS_TOO_LONG",
                "could not be started: its arguments and variables are too long for the system, which takes 128 KB for one and about 2 MB for all".to_owned(),
            ),
            _ => ("START_FAILED", format!("could not be started: {error}")),
        };
        Refusal { code, message: format!("command: {path} {problem}") }
    })
}
