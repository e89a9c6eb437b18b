//! Starting a command: its process puts everything in force on itself, and then executes the
//! command.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl;
use nix::unistd::{Pid, chdir, geteuid, setpgid};
use rustix::fs::{
    MemfdFlags, Mode, OFlags, ResolveFlags, SealFlags, fcntl_add_seals, memfd_create, openat2,
};
use rustix::io::{FdFlags, fcntl_setfd, pread};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use spawn::{Program, SpawnError, Stack, spawn};

use super::files::{Basis, Rules};
use super::init::{Own, Request};
use super::launcher::Common;
use super::spec::{self, Spec};
use super::{Feature, Level, Report, confine, root};

/// The name of the document about the run of an artifact, in the scratch directory.
const CONTEXT: &str = "context.json";

/// Why a command does not start.
pub(super) struct StartRefusal {
    pub code: &'static str,
    pub message: String,
}

impl StartRefusal {
    fn failed(what: &str, error: &dyn std::fmt::Display) -> Self {
        StartRefusal { code: "SANDBOX_FAILED", message: format!("{what}: {error}") }
    }
}

/// The result of a request.
pub(super) struct StartResult {
    /// The features in force, if the request got that far.
    pub report: Option<Report>,
    /// The process of the command; none if only the report was asked for.
    pub command: Result<Option<Pid>, StartRefusal>,
}

/// Starts the command of a request.
pub(super) fn command(
    common: &Common,
    own: &Own,
    request: Request,
    stack: &mut Stack,
) -> StartResult {
    let mut report = None;
    let command = try_command(common, own, request, stack, &mut report);
    StartResult { report, command }
}

fn try_command(
    common: &Common,
    own: &Own,
    request: Request,
    stack: &mut Stack,
    report: &mut Option<Report>,
) -> Result<Option<Pid>, StartRefusal> {
    let spec = &request.spec;
    let scratch = match &spec.scratch {
        Some(scratch) if !common.has_root => scratch,
        _ => &common.setup.layout.scratch,
    };
    let stdin = stdin(spec).map_err(|error| StartRefusal::failed("the parameters", &error))?;
    let artifact = spec.command.as_ref().and_then(|command| command.artifact.as_ref());
    let file = match &spec.command {
        Some(command) => Some(open(&place_of(common, command))?),
        None => None,
    };
    let started = Placement {
        scratch,
        artifact: artifact.map(|it| match common.has_root {
            true => Path::new(root::ARTIFACT),
            false => it.folder.as_path(),
        }),
        result: request.result.as_ref().map(AsRawFd::as_raw_fd),
    };
    let program = program(spec.command.as_ref(), file.as_ref(), &started);
    let program = program.map_err(|error| StartRefusal::failed("the command", &error))?;
    let command = Command {
        common,
        own,
        request: &request,
        file: file.as_ref(),
        stdin,
        scratch,
        artifact: started.artifact,
    };
    // Some(None) is the end of a request for a report.
    let spawned = spawn(stack, &program, || match command.confine(report) {
        Ok(()) if spec.command.is_some() => Ok(()),
        Ok(()) => Err(None),
        Err(refusal) => Err(Some(refusal)),
    });
    match spawned {
        Ok(process) => Ok(Some(process)),
        Err(SpawnError::Prepare(None)) => Ok(None),
        Err(SpawnError::Prepare(Some(refusal))) => Err(refusal),
        Err(SpawnError::Fork(error)) => {
            Err(StartRefusal::failed("no process for the command", &error))
        }
        Err(SpawnError::Execute(error)) => {
            let shown = spec.command.as_ref().map_or_else(|| "/".into(), shown);
            Err(not_executed(&shown, &error))
        }
    }
}

/// What a command is told when it is started.
struct Placement<'a> {
    scratch: &'a Path,
    /// Where it has its artifact.
    artifact: Option<&'a Path>,
    /// The descriptor of its result.
    result: Option<i32>,
}

impl Placement<'_> {
    fn context(&self) -> PathBuf {
        self.scratch.join(CONTEXT)
    }

    /// An argument, or what it stands for.
    fn argument<'a>(&self, argument: &'a str) -> Cow<'a, str> {
        let shown = |path: &Path| path.to_string_lossy().into_owned();
        match (argument, self.artifact, self.result) {
            (spec::FOLDER_MARK, Some(folder), _) => shown(folder).into(),
            (spec::CONTEXT_MARK, Some(_), _) => shown(&self.context()).into(),
            (spec::RESULT_MARK, _, Some(result)) => result.to_string().into(),
            _ => argument.into(),
        }
    }
}

/// The path of a command as this process sees it.
fn place_of(common: &Common, command: &spec::Command) -> PathBuf {
    match &command.artifact {
        Some(artifact) if common.has_root => match command.path.strip_prefix(&artifact.folder) {
            Ok(inside) => root::artifact_before_mount(&artifact.folder).join(inside),
            Err(_) => command.path.clone(),
        },
        _ => command.path.clone(),
    }
}

/// A command in its own process, before it is executed.
struct Command<'a> {
    common: &'a Common,
    own: &'a Own,
    request: &'a Request,
    file: Option<&'a OwnedFd>,
    stdin: OwnedFd,
    scratch: &'a Path,
    artifact: Option<&'a Path>,
}

impl Command<'_> {
    /// Puts all features in force and reports them. Refuses the command when a required one is
    /// missing.
    fn confine(&self, told: &mut Option<Report>) -> Result<(), StartRefusal> {
        let setup = &self.common.setup;
        let is_on = setup.sandbox != Level::Off;
        let mut report = self.common.report.clone();
        self.connect().map_err(|error| StartRefusal::failed("the streams", &error))?;
        let is_grouped = self.join(&mut report) && self.request.spec.memory_is_grouped;
        if is_on {
            self.enter(&mut report)?;
        }
        let work = setup.working_directory.as_deref().unwrap_or(self.scratch);
        chdir(work).map_err(|error| StartRefusal {
            code: "WORKING_DIRECTORY",
            message: format!("{}: {error}", work.display()),
        })?;
        self.write_context().map_err(|error| StartRefusal::failed("the context", &error))?;
        let rules = is_on.then(|| Rules::new(&self.basis()));
        let change = confine::change_user(setup.user);
        if is_on {
            let uid = geteuid();
            let is_root = if uid.is_root() { Err("it is root".to_owned()) } else { Ok(()) };
            report.note(Feature::User, change.and(is_root).map(|()| format!("uid {uid}")));
            report.note(Feature::OwnCount, self.count_alone());
        } else {
            change.map_err(|error| StartRefusal::failed("the user", &error))?;
        }
        if let Some(rules) = rules {
            self.restrict(is_grouped, rules, &mut report);
        }
        // Late, because they also apply to the set-up before the command.
        let limited = confine::limit(&setup.limits);
        limited.map_err(|error| StartRefusal::failed("the limits", &error))?;
        let lacks = told.insert(report).lacks();
        match (setup.sandbox, lacks) {
            (Level::Required, Some(lacks)) => Err(StartRefusal {
                code: "SANDBOX_UNAVAILABLE",
                message: format!(
                    "this machine cannot enforce: {lacks}. Change the machine, or allow the sandbox to be best-effort"
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Writes the document about the run of an artifact, and lets the program write its result.
    fn write_context(&self) -> io::Result<()> {
        let command = self.request.spec.command.as_ref();
        let Some(artifact) = command.and_then(|command| command.artifact.as_ref()) else {
            return Ok(());
        };
        let path = self.scratch.join(CONTEXT);
        std::fs::write(&path, &artifact.context)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444))?;
        if let Some(result) = &self.request.result {
            if let Some(user) = self.common.setup.user {
                // A process that opens a pipe by its name must own it. Where this fails, the descriptor works.
                let _ = rustix::fs::fchown(
                    result,
                    Some(rustix::fs::Uid::from_raw(user.uid)),
                    Some(rustix::fs::Gid::from_raw(user.gid)),
                );
            }
            fcntl_setfd(result, FdFlags::empty())?;
        }
        Ok(())
    }

    /// Gives the process its streams, and makes it the leader of a process group.
    fn connect(&self) -> io::Result<()> {
        dup2_stdin(&self.stdin)?;
        dup2_stdout(&self.request.stdout)?;
        dup2_stderr(&self.request.stderr)?;
        Ok(setpgid(Pid::from_raw(0), Pid::from_raw(0))?)
    }

    /// Enters the control group, if there is one. Whether it has.
    fn join(&self, report: &mut Report) -> bool {
        let Some(group) = &self.request.group else { return false };
        let joined = rustix::io::write(group, b"0");
        if let Err(error) = joined {
            report.note(Feature::ControlGroup, Err(format!("it cannot be entered: {error}")));
        }
        joined.is_ok()
    }

    /// Enters the namespaces of the command, and gives it its scratch directory.
    fn enter(&self, report: &mut Report) -> Result<(), StartRefusal> {
        let ipc = match self.common.namespace {
            Some(_) => unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC)
                .map_err(|error| error.to_string()),
            None => Err("the kernel refuses namespaces".to_owned()),
        };
        if let (true, Err(error)) = (self.common.has_root, &ipc) {
            return Err(StartRefusal::failed("no mount namespace", error));
        }
        report.note(Feature::Ipc, ipc.map(|()| "ipc namespace".to_owned()));
        if !self.common.has_root {
            let folder = "a folder of the machine, whose size nothing limits";
            report.note(Feature::Scratch, Err(folder));
            return Ok(());
        }
        let mounted = root::mount_scratch(&self.common.setup);
        mounted.map_err(|error| StartRefusal::failed("the scratch directory", &error))?;
        let command = self.request.spec.command.as_ref();
        let artifact = command.and_then(|command| command.artifact.as_ref());
        let artifact = artifact.map(|artifact| artifact.folder.as_path());
        let mounted = root::mount_artifact(&self.common.setup.layout, artifact);
        mounted.map_err(|error| StartRefusal::failed("the artifact", &error))?;
        let how = format!("tmpfs on {}", self.scratch.display());
        report.note::<&str>(Feature::Scratch, Ok(how));
        Ok(())
    }

    /// Enters the user namespace where only its own processes are counted.
    fn count_alone(&self) -> Result<String, String> {
        let users = self.own.users.as_ref().ok_or_else(|| self.own.no_users.clone())?;
        setns(users, CloneFlags::CLONE_NEWUSER).map_err(|error| error.to_string())?;
        Ok("user namespace".to_owned())
    }

    fn basis(&self) -> Basis<'_> {
        Basis {
            setup: &self.common.setup,
            program: self.file,
            scratch: self.scratch,
            artifact: self.artifact,
            has_root: self.common.has_root,
            has_proc: self.own.has_proc,
        }
    }

    /// Gives up every right, in the order in which the kernel lets a process give them up.
    fn restrict(&self, is_grouped: bool, rules: Rules, report: &mut Report) {
        let common = self.common;
        let capabilities = confine::drop_capabilities().map(|()| "none".to_owned());
        report.note(Feature::Capabilities, capabilities);
        let no_new = prctl::set_no_new_privs().map(|()| "no_new_privs".to_owned());
        report.note(Feature::NoNewPrivileges, no_new);
        rules.enforce(&common.setup, report);
        let filter = if is_grouped { &common.grouped } else { &common.ungrouped };
        let filtered = common.filtered.clone().and_then(|()| filter.enforce());
        if common.setup.deny_network && filtered.is_ok() {
            let namespace = if common.namespace.is_some() { "network namespace, " } else { "" };
            report.note::<&str>(Feature::Network, Ok(format!("{namespace}no sockets (seccomp)")));
        }
        let memory = match (is_grouped, filtered.is_ok() && common.has_root) {
            (true, _) => Ok("control group"),
            (false, true) => {
                Ok("each process but not its kernel memory, no shared memory (seccomp)")
            }
            (false, false) => Err("limits each process only, and no shared or kernel memory"),
        };
        report.note(Feature::Memory, memory.map(str::to_owned));
        report.note(Feature::SystemCalls, filtered.map(|()| "seccomp".to_owned()));
        if !self.own.has_proc && !report.in_force.contains_key(&Feature::Files) {
            report.note(Feature::Processes, Err("/proc shows those of the machine"));
        }
    }
}

/// The command's file, reached without any link, so that it is the one that was allowed.
fn open(path: &Path) -> Result<OwnedFd, StartRefusal> {
    let open =
        |flags| openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    // A program that cannot be read may still be executed.
    let program = open(OFlags::RDONLY | OFlags::NONBLOCK).or_else(|_| open(OFlags::PATH));
    let program = program.map_err(|error| StartRefusal {
        code: "COMMAND_NOT_ALLOWED",
        message: format!("command: {} changed while it was looked at: {error}", path.display()),
    })?;
    // An interpreter opens its script again by this descriptor. A program does not need it, nor
    // does a script that cannot be read.
    let mut begin = [0; 2];
    let is_script = pread(&program, &mut begin, 0) == Ok(2) && begin == *b"#!";
    if !is_script {
        let _ = fcntl_setfd(&program, FdFlags::CLOEXEC);
    }
    Ok(program)
}

/// The parameters, as a file that is read from its beginning. Nothing else can be written to it, so
/// that it cannot become a program.
fn stdin(spec: &Spec) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("parameters", flags)?);
    if let Some(command) = &spec.command {
        file.write_all(command.stdin.as_bytes())?;
        file.rewind()?;
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// The program to execute: the command by its descriptor, with its arguments and variables.
fn program(
    command: Option<&spec::Command>,
    file: Option<&OwnedFd>,
    started: &Placement<'_>,
) -> io::Result<Program> {
    let (Some(command), Some(file)) = (command, file) else {
        return Program::new("/", [""; 0], [""; 0]);
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let arguments = command.arguments.iter().map(|argument| started.argument(argument));
    let arguments: Vec<_> = [Cow::from(&command.name)].into_iter().chain(arguments).collect();
    let arguments = arguments.iter().map(|argument| &**argument);
    let scratch = started.scratch.to_string_lossy();
    let of_scratch = ["HOME", "TMPDIR"].into_iter();
    let of_scratch = of_scratch.filter(|name| !command.environment.contains_key(*name));
    let of_scratch = of_scratch.map(|name| format!("{name}={scratch}"));
    let given = command.environment.iter().map(|(name, value)| format!("{name}={value}"));
    let of_artifact = started.artifact.map(|folder| {
        [
            format!("PUNCTUAL_ARTIFACT={}", folder.display()),
            format!("PUNCTUAL_CONTEXT={}", started.context().display()),
            format!("PUNCTUAL_RESULT=/proc/self/fd/{}", started.result.unwrap_or(-1)),
        ]
    });
    let of_artifact = of_artifact.into_iter().flatten();
    Program::new(&path, arguments, of_scratch.chain(given).chain(of_artifact))
}

/// A command in messages. Tenants read them, so a program of an artifact is shown by its name in the
/// artifact, not by its place on this machine.
fn shown(command: &spec::Command) -> String {
    match command.artifact {
        Some(_) => command.name.clone(),
        None => command.path.display().to_string(),
    }
}

fn not_executed(shown: &str, error: &io::Error) -> StartRefusal {
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
    StartRefusal { code, message: format!("command: {shown} {problem}") }
}
