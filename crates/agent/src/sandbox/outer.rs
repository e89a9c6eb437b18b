//! The outer helper: enters the namespaces, starts the inner helper, and cleans up behind it.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{getegid, geteuid, setsid};
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

use super::spec::{self, Message, Namespaces, Outer};
use super::{Level, MARK, supervise};

pub(super) fn run() -> io::Result<()> {
    let mut socket = socket()?;
    close_others(&socket)?;
    let spec: Outer = spec::receive(&mut socket)?;
    prctl::set_child_subreaper(true)?;
    let _ = setsid();
    let namespaces = match spec.sandbox {
        Level::Off => Namespaces { problem: "the sandbox is off".into(), ..Namespaces::default() },
        Level::Required | Level::BestEffort => enter(spec.deny_network),
    };
    // The command may be of the same user and may not look into this process.
    let _ = prctl::set_dumpable(false);
    let inner = start(&socket, &namespaces)?;
    let killed = supervise::outlive(&socket, inner, namespaces.entered)?;
    if killed > 0 {
        // The agent may be gone.
        let _ = spec::send(&mut socket, &Message::Swept(killed));
    }
    Ok(())
}

/// The socket to the agent: what this process got as its standard input.
pub(super) fn socket() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Closes whatever else was inherited.
fn close_others(socket: &UnixStream) -> io::Result<()> {
    use std::os::fd::AsRawFd;
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

/// Enters as many namespaces as the kernel lets this process enter.
fn enter(deny_network: bool) -> Namespaces {
    let mut flags = CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS;
    flags.set(CloneFlags::CLONE_NEWNET, deny_network);
    let mut namespaces = Namespaces { has_network: deny_network, ..Namespaces::default() };
    // Root needs no user namespace for the others. Everybody else needs one.
    if geteuid().is_root() && unshare(flags).is_ok() {
        namespaces.entered = true;
        return namespaces;
    }
    let (uid, gid) = (geteuid(), getegid());
    if let Err(error) = unshare(flags | CloneFlags::CLONE_NEWUSER) {
        namespaces.has_network = false;
        namespaces.problem = format!("the kernel refuses namespaces: {error}");
        return namespaces;
    }
    namespaces.entered = true;
    namespaces.has_user = true;
    if let Err(error) = map_self(uid.as_raw(), gid.as_raw()).and_then(|()| keep_mounting()) {
        namespaces.problem = format!("the user namespace has no rights: {error}");
    }
    namespaces
}

/// Makes the user and group of this process known inside its user namespace, as themselves.
pub(super) fn map_self(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Lets the inner helper mount, although its user is not root in the namespace.
fn keep_mounting() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the helper exists to start a process")]
fn start(socket: &UnixStream, namespaces: &Namespaces) -> io::Result<u32> {
    let socket = OwnedFd::from(socket.try_clone()?);
    let inner = Command::new("/proc/self/exe")
        .arg(MARK)
        .arg(serde_json::to_string(namespaces)?)
        .env_clear()
        .stdin(Stdio::from(socket))
        .spawn()?;
    Ok(inner.id())
}
