//! Restrictions that a process puts on itself for good: its user, its capabilities, its limits.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::wait::waitpid;
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};
use spawn::{Forked, exit, fork};

use super::init::descriptors;
use super::launcher::map_self;
use super::spec::{Limits, User};

/// How far the stack of a process grows at most. The limit of its data does not count it.
const STACK_BYTES_MAX: u64 = 64 << 20;

/// Becomes the user that commands run as.
pub(super) fn change_user(user: Option<User>) -> Result<(), String> {
    let Some(user) = user else { return Ok(()) };
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

/// Makes a user namespace in which the user of commands is known as itself. The limit of processes
/// counts those of one namespace only.
pub(super) fn user_namespace(user: Option<User>) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let Forked::Parent(child) = fork()? else {
        drop(ours);
        exit(make_user_namespace(user, &theirs).map_or(1, |()| 0));
    };
    drop(theirs);
    let namespace = descriptors(&ours, &mut 0);
    waitpid(child, None)?;
    let namespace = namespace?.unwrap_or_default().into_iter().next();
    namespace.ok_or_else(|| io::Error::other("the kernel refuses user namespaces"))
}

/// Makes a user namespace for this process, and sends it.
fn make_user_namespace(user: Option<User>, socket: &UnixStream) -> io::Result<()> {
    change_user(user).map_err(io::Error::other)?;
    let (uid, gid) = (geteuid(), getegid());
    // The maps belong to root otherwise, after a change of user.
    prctl::set_dumpable(true)?;
    unshare(CloneFlags::CLONE_NEWUSER)?;
    map_self(uid.as_raw(), gid.as_raw())?;
    let namespace = File::open("/proc/self/ns/user")?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let namespace = [namespace.as_fd()];
    rights.push(SendAncillaryMessage::ScmRights(&namespace));
    sendmsg(socket, &[IoSlice::new(&[0])], &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(super) fn drop_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        // Needs a capability that may be gone already; without any, this set gives nothing.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

pub(super) fn limit(limits: &Limits) -> nix::Result<()> {
    for (resource, value) in [
        (Resource::RLIMIT_CPU, limits.cpu_seconds),
        // Not the address space: some run times reserve far more than they use.
        (Resource::RLIMIT_DATA, limits.memory_bytes),
        (Resource::RLIMIT_NPROC, limits.processes),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_FSIZE, limits.file_bytes),
        (Resource::RLIMIT_CORE, 0),
    ] {
        let (_, most) = getrlimit(resource)?;
        let value = value.min(most);
        setrlimit(resource, value, value)?;
    }
    let (stack, most) = getrlimit(Resource::RLIMIT_STACK)?;
    let most = most.min(STACK_BYTES_MAX.min(limits.memory_bytes));
    setrlimit(Resource::RLIMIT_STACK, stack.min(most), most)
}
