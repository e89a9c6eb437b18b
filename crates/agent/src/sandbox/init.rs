//! The init process of commands: the first process of a pid namespace. It starts a command, watches
//! it, and kills whatever is left of it.
//!
//! Where it belongs to root, no command can do anything to it, and it starts one command after
//! another. Elsewhere it starts one and ends.

use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::{fs, slice};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use spawn::{Forked, Stack, fork};

use super::launcher::Common;
use super::spec::{self, HelperMessage, REQUEST_DESCRIPTORS, Spec};
use super::start::{self, StartResult};
use super::{Level, confine, root, supervise};

/// The agent's request to start a command.
pub(super) struct Request {
    pub spec: Spec,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// The pipe of its result, if it runs an artifact.
    pub result: Option<OwnedFd>,
    /// The file by which a process enters the control group of the command.
    pub group: Option<OwnedFd>,
}

/// The state of an init process that its commands share.
#[derive(Default)]
pub(super) struct Own {
    /// Whether `/proc` shows its own processes only.
    pub has_proc: bool,
    /// A user namespace, where the limit of processes counts only those of one command.
    pub users: Option<OwnedFd>,
    /// Why there is none.
    pub no_users: String,
}

/// Becomes an init process. Where there is no pid namespace, this process becomes the outer helper:
/// it adopts whatever loses its parent, and ends it.
pub(super) fn run(common: &Common, mut socket: UnixStream) -> io::Result<()> {
    if common.namespace.is_none() {
        prctl::set_child_subreaper(true)?;
        if let Forked::Parent(init) = fork()? {
            let killed = supervise::outlive(&socket, init)?;
            if killed > 0 {
                // The agent may be gone.
                let _ = spec::send(&mut socket, &HelperMessage::Swept(killed));
            }
            return Ok(());
        }
    }
    // If the parent has died before, reading the socket fails.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // If memory runs out, the command goes first, and what belongs to it.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let own = furnish(common);
    let mut stack = Stack::new()?;
    // None and an error mean that the agent is gone.
    while let Ok(Some(request)) = receive(&mut socket) {
        serve(common, &own, request, &mut socket, &mut stack)?;
        if !common.is_reusable {
            break;
        }
    }
    Ok(())
}

/// Makes the resources that the commands of this process share.
fn furnish(common: &Common) -> Own {
    if common.setup.sandbox == Level::Off {
        return Own::default();
    }
    let (users, no_users) = match confine::user_namespace(common.setup.user) {
        Ok(users) => (Some(users), String::new()),
        Err(error) => (None, error.to_string()),
    };
    Own { has_proc: common.has_root && root::mount_proc(), users, no_users }
}

/// Carries out one request.
fn serve(
    common: &Common,
    own: &Own,
    request: Request,
    socket: &mut UnixStream,
    stack: &mut Stack,
) -> io::Result<()> {
    let StartResult { report, command } = start::command(common, own, request, stack);
    if let Some(report) = report {
        let _ = spec::send(socket, &HelperMessage::Report(report));
    }
    let message = match command {
        Ok(None) => HelperMessage::Probed,
        Ok(Some(command)) => {
            HelperMessage::Ended(supervise::watch(socket, command, common.namespace.is_some())?)
        }
        Err(refusal) => {
            let (code, message) = (refusal.code.to_owned(), refusal.message);
            HelperMessage::Refused { code, message }
        }
    };
    // The agent may be gone.
    let _ = spec::send(socket, &message);
    Ok(())
}

/// Takes a request: a message whose first byte carries the descriptors. None when the agent wants
/// no more.
fn receive(socket: &mut UnixStream) -> io::Result<Option<Request>> {
    let mut first = 0;
    let Some(descriptors) = descriptors(socket, &mut first)? else { return Ok(None) };
    let mut descriptors = descriptors.into_iter();
    let (Some(stdout), Some(stderr)) = (descriptors.next(), descriptors.next()) else {
        return Ok(None);
    };
    let mut message = slice::from_ref(&first).chain(socket);
    let spec: Spec = spec::receive(&mut message)?;
    let has_result = spec.command.as_ref().is_some_and(|command| command.artifact.is_some());
    let result = if has_result { descriptors.next() } else { None };
    Ok(Some(Request { spec, stdout, stderr, result, group: descriptors.next() }))
}

/// Takes a byte and the descriptors that it carries. None at the end of the socket.
pub(super) fn descriptors(socket: &UnixStream, byte: &mut u8) -> io::Result<Option<Vec<OwnedFd>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REQUEST_DESCRIPTORS))];
    let mut messages = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [IoSliceMut::new(slice::from_mut(byte))];
    let received = recvmsg(socket, &mut bytes, &mut messages, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let messages = messages.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(Some(messages.flatten().collect()))
}
