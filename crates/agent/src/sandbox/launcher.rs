//! The launcher: a process with one thread that starts init processes for commands.
//!
//! It does the common set-up of all commands once: namespaces, the root directory, most of the
//! filter of system calls. It forks when the agent needs another init process, watches its children
//! until they have ended, and holds the socket to the agent as long: for the agent, the end of the
//! socket is the end of everything.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, getegid, geteuid, setsid};
use rustix::event::{PollFd, PollFlags, Timespec};
use spawn::{Forked, fork};

use super::init;
use super::spec::{self, HelperMessage, Ready, Setup};
use super::supervise::{self, open};
use super::syscalls::{Sockets, SyscallFilter};
use super::{Feature, Level, Report, files, root};

/// How long an init process may take to clean up when the agent is gone. When it is killed, all of
/// its namespace is.
const INIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The same for an outer helper, which has to find the processes one by one.
const OUTER_TIMEOUT: Duration = Duration::from_secs(5);

/// Which namespaces the launcher has entered.
#[derive(Debug, Default)]
struct Namespaces {
    entered: bool,
    /// Whether one of them is a user namespace.
    has_user: bool,
    /// Why they were not entered.
    problem: String,
}

/// The state that all commands share, prepared by the launcher.
pub(super) struct Common {
    pub setup: Setup,
    /// The features in force before a command is started.
    pub report: Report,
    pub has_root: bool,
    /// The pid namespace of the launcher, where it has one.
    pub namespace: Option<File>,
    /// Whether an init process starts one command after another: where no command can reach it.
    pub is_reusable: bool,
    /// Whether the filter of the launcher is in force.
    pub filtered: Result<(), String>,
    /// The filter of a command whose memory is limited by a control group, and the other one.
    pub grouped: SyscallFilter,
    pub ungrouped: SyscallFilter,
}

/// An init process that was started.
struct WatchedInit {
    process: Pid,
    handle: OwnedFd,
    state: State,
}

enum State {
    /// The agent has the other end of its socket.
    Wanted(OwnedFd),
    /// The agent is gone, and from then on it is killed.
    Alone(Instant),
    Killed,
}

pub(super) fn run() -> io::Result<()> {
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    close_others(&socket)?;
    // It has three descriptors for each init process.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    // A signal that a terminal sends to the agent must not reach the launcher.
    let _ = setsid();
    // The agent waits for this process in the thread that started it. If the agent has died before,
    // reading the socket fails.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let Some(setup) = unless_gone(spec::receive::<Setup>(&mut socket))? else { return Ok(()) };
    let namespaces = match setup.sandbox {
        Level::Off => Namespaces { problem: "the sandbox is off".into(), ..Namespaces::default() },
        Level::Required | Level::BestEffort => enter(setup.deny_network),
    };
    // Commands may be of the same user and may not look into this process.
    let _ = prctl::set_dumpable(false);
    if namespaces.entered {
        // The first process of the namespace: when it ends, so does everything in it.
        if let Forked::Parent(child) = fork()? {
            drop(socket);
            waitpid(child, None)?;
            return Ok(());
        }
        prctl::set_pdeathsig(Signal::SIGKILL)?;
    }
    serve(socket, setup, &namespaces)
}

/// None if the agent is gone.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe) => {
            Ok(None)
        }
        result => result.map(Some),
    }
}

/// Closes whatever else was inherited.
pub(super) fn close_others(socket: &impl AsRawFd) -> io::Result<()> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for number in open {
        if number > 2 && number != socket.as_raw_fd() {
            // The folder that was just read is among them and closed already.
            let _ = nix::unistd::close(number);
        }
    }
    Ok(())
}

/// Enters as many namespaces as the kernel lets this process enter. All commands share that of the
/// network, which is empty and which no socket can be made in.
fn enter(deny_network: bool) -> Namespaces {
    let mut flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS;
    flags.set(CloneFlags::CLONE_NEWNET, deny_network);
    // Root needs no user namespace for the others. Every other user needs one.
    if geteuid().is_root() && unshare(flags).is_ok() {
        return Namespaces { entered: true, ..Namespaces::default() };
    }
    let (uid, gid) = (geteuid(), getegid());
    let entered = unshare(flags | CloneFlags::CLONE_NEWUSER).map_err(io::Error::from);
    match entered.and_then(|()| map_self(uid.as_raw(), gid.as_raw())) {
        Ok(()) => Namespaces { entered: true, has_user: true, ..Namespaces::default() },
        Err(error) => {
            let problem = format!("the kernel refuses namespaces: {error}");
            Namespaces { problem, ..Namespaces::default() }
        }
    }
}

/// Makes the user and group of this process known inside its user namespace, as themselves.
pub(super) fn map_self(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Starts commands until the agent wants no more of them, and all have ended.
fn serve(mut socket: UnixStream, setup: Setup, namespaces: &Namespaces) -> io::Result<()> {
    let common = prepare(setup, namespaces)?;
    let ready = Ready {
        has_root: common.has_root,
        has_namespace: common.namespace.is_some(),
        is_reusable: common.is_reusable,
    };
    if unless_gone(spec::send(&mut socket, &ready))?.is_none() {
        return Ok(());
    }
    let mut socket = Some(socket);
    let mut watched: Vec<WatchedInit> = Vec::new();
    while socket.is_some() || !watched.is_empty() {
        if !wait(&common, socket.as_ref(), &mut watched)? {
            continue;
        }
        let Some(request) = socket.as_ref().map(receive).transpose()?.flatten() else {
            socket = None;
            continue;
        };
        // A request that did not arrive completely is dropped: the agent sees that its socket is
        // closed.
        let Some(to_agent) = request else { continue };
        match begin(&common) {
            Ok(Forked::Parent(process)) => watched.push(WatchedInit::new(process, to_agent)?),
            Ok(Forked::Child) => {
                drop((socket, watched));
                let code = init::run(&common, to_agent).map_or(1, |()| 0);
                // The exit handlers of the process belong to the launcher.
                spawn::exit(code);
            }
            Err(error) => refuse(to_agent, &error),
        }
    }
    Ok(())
}

/// Does the common set-up of all commands.
fn prepare(setup: Setup, namespaces: &Namespaces) -> io::Result<Common> {
    let mut report = Report::default();
    let namespace = namespaces.entered.then(|| File::open("/proc/self/ns/pid")).transpose()?;
    let (mut has_root, mut filtered) = (false, Ok(()));
    if setup.sandbox != Level::Off {
        let root = if namespaces.entered {
            root::build(&setup.layout)
        } else {
            Err(namespaces.problem.clone())
        };
        has_root = root.is_ok();
        report.note(Feature::Root, root.map(|()| "mount namespace".to_owned()));
        let entered = |name: &str| match namespaces.entered {
            true => Ok(format!("{name} namespace")),
            false => Err(namespaces.problem.clone()),
        };
        report.note(Feature::Processes, entered("pid"));
        if setup.deny_network {
            report.note(Feature::Network, entered("network"));
        }
        let sockets = match setup.deny_network {
            true => Sockets::None,
            false if files::has_socket_scope() => Sockets::NetworkAndUnix,
            false => Sockets::Network,
        };
        filtered = SyscallFilter::of_launcher(sockets).enforce();
    }
    let (grouped, ungrouped) = (SyscallFilter::of_command(true), SyscallFilter::of_command(false));
    // Root can become every user, but not where it is root of a user namespace only.
    let is_other = setup.user.is_some_and(|user| user.uid != geteuid().as_raw());
    let is_reusable = has_root && is_other && !namespaces.has_user;
    Ok(Common { setup, report, has_root, namespace, is_reusable, filtered, grouped, ungrouped })
}

/// Waits until something happens, and reaps ended children. Returns whether the agent has sent a
/// message.
fn wait(
    common: &Common,
    socket: Option<&UnixStream>,
    watched: &mut Vec<WatchedInit>,
) -> io::Result<bool> {
    let now = || {
        #[expect(clippy::disallowed_methods, reason = "what does not end is killed after a while")]
        Instant::now()
    };
    let ends = watched.iter().filter_map(|one| match one.state {
        State::Alone(end) => Some(end),
        _ => None,
    });
    let left = ends.min().map(|end| end.saturating_duration_since(now()));
    let timeout = left.map(|left| Timespec {
        tv_sec: left.as_secs().cast_signed(),
        tv_nsec: left.subsec_nanos().into(),
    });
    let mut waits: Vec<PollFd<'_>> = Vec::with_capacity(1 + 2 * watched.len());
    waits.extend(socket.map(|socket| PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP)));
    for one in watched.iter() {
        waits.push(PollFd::new(&one.handle, PollFlags::IN));
        if let State::Wanted(socket) = &one.state {
            waits.push(PollFd::new(socket, PollFlags::RDHUP));
        }
    }
    supervise::wait(&mut waits, timeout.as_ref())?;
    let happened: Vec<bool> = waits.iter().map(|wait| !wait.revents().is_empty()).collect();
    let mut happened = happened.into_iter();
    let is_asked = socket.is_some() && happened.next().unwrap_or(false);
    watched.retain_mut(|one| {
        let has_ended = happened.next().unwrap_or(false);
        match one.state {
            State::Wanted(_) if happened.next().unwrap_or(false) => {
                let has_namespace = common.namespace.is_some();
                let limit = if has_namespace { INIT_TIMEOUT } else { OUTER_TIMEOUT };
                one.state = State::Alone(now() + limit);
            }
            State::Alone(end) if now() >= end => {
                let _ = kill(one.process, Signal::SIGKILL);
                one.state = State::Killed;
            }
            _ => {}
        }
        if has_ended {
            let _ = waitpid(one.process, None);
        }
        !has_ended
    });
    Ok(is_asked)
}

/// Takes a request: the socket of an init process. None when the agent wants no more.
fn receive(socket: &UnixStream) -> io::Result<Option<Option<UnixStream>>> {
    let descriptors = init::descriptors(socket, &mut 0)?;
    Ok(descriptors.map(|descriptors| descriptors.into_iter().next().map(UnixStream::from)))
}

/// Forks an init process: the first one of a pid namespace, where there are such.
fn begin(common: &Common) -> io::Result<Forked> {
    let Some(own) = &common.namespace else { return fork() };
    unshare(CloneFlags::CLONE_NEWPID)?;
    let forked = fork();
    if !matches!(forked, Ok(Forked::Child)) {
        setns(own, CloneFlags::CLONE_NEWPID)?;
    }
    forked
}

fn refuse(mut to_agent: UnixStream, error: &io::Error) {
    let message = format!("no process could be started for the command: {error}");
    let refused = HelperMessage::Refused { code: "SANDBOX_FAILED".to_owned(), message };
    // The agent may be gone.
    let _ = spec::send(&mut to_agent, &refused);
}

impl WatchedInit {
    fn new(process: Pid, to_agent: UnixStream) -> io::Result<Self> {
        Ok(WatchedInit { process, handle: open(process)?, state: State::Wanted(to_agent.into()) })
    }
}
