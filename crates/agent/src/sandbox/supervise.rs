//! Waiting for processes, and for the agent; and killing processes that must not stay.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use spawn::Usage;

use super::spec::{Ended, KILL, TERMINATE};

/// How often processes that ended in between are collected.
const COLLECT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long the init process may take to clean up when the agent is gone.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The init process's watch over the command, until nothing of it is left.
pub(super) fn watch(socket: &mut UnixStream, command: Pid, is_first: bool) -> io::Result<Ended> {
    let handle = open(command)?;
    let mut watched = WatchedCommand { command, ended: Ended::default(), usage: Usage::default() };
    while !watched.has_ended() {
        let mut waits = [
            PollFd::new(&handle, PollFlags::IN),
            PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP),
        ];
        wait(&mut waits, Some(&COLLECT))?;
        let has_word = !waits[1].revents().is_empty();
        watched.collect(Some(WaitPidFlag::WNOHANG))?;
        if has_word {
            let mut word = [0];
            match socket.read(&mut word) {
                Ok(1) if word[0] == TERMINATE => {
                    let _ = killpg(command, Signal::SIGTERM);
                    // A stopped process cannot end by itself.
                    let _ = killpg(command, Signal::SIGCONT);
                }
                Ok(1) if word[0] != KILL => {}
                // It must end, or the agent is gone.
                _ => break,
            }
        }
    }
    let _ = killpg(command, Signal::SIGKILL);
    if is_first {
        // Everything in the namespace but this process.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
    watched.collect(None)?;
    let WatchedCommand { mut ended, usage, .. } = watched;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    (ended.user_ms, ended.system_ms) = (millis(usage.user), millis(usage.system));
    ended.peak_memory_bytes = usage.peak_memory_bytes;
    ended.is_all = is_first;
    Ok(ended)
}

/// A command that is watched.
struct WatchedCommand {
    command: Pid,
    ended: Ended,
    /// The resources that all of its processes have used.
    usage: Usage,
}

impl WatchedCommand {
    fn has_ended(&self) -> bool {
        self.ended.code.is_some() || self.ended.signal.is_some()
    }

    /// Collects the processes that have ended, all of them or those that have by now.
    fn collect(&mut self, flags: Option<WaitPidFlag>) -> io::Result<()> {
        loop {
            let (status, usage) = match spawn::wait(flags) {
                Ok(Some(waited)) => waited,
                Ok(None) => return Ok(()),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::ECHILD) => return Ok(()),
                    _ => return Err(error),
                },
            };
            self.usage.user += usage.user;
            self.usage.system += usage.system;
            let peak = &mut self.usage.peak_memory_bytes;
            *peak = usage.peak_memory_bytes.max(*peak);
            match status {
                WaitStatus::Exited(pid, code) if pid == self.command => {
                    self.ended.code = Some(code);
                }
                WaitStatus::Signaled(pid, signal, _) if pid == self.command => {
                    self.ended.signal = Some(signal as i32);
                }
                // Without a flag this is after the end: they were left behind.
                _ if flags.is_none() => self.ended.left_behind += 1,
                _ => {}
            }
        }
    }
}

/// The outer helper's watch over the init process: until it has ended, and then until nothing is
/// left that lost its parent. How many were killed.
pub(super) fn outlive(socket: &UnixStream, init: Pid) -> io::Result<u32> {
    let handle = open(init)?;
    loop {
        let mut waits =
            [PollFd::new(&handle, PollFlags::IN), PollFd::new(socket, PollFlags::RDHUP)];
        wait(&mut waits, Some(&COLLECT))?;
        if !waits[0].revents().is_empty() {
            break;
        }
        if !waits[1].revents().is_empty() {
            let mut waits = [PollFd::new(&handle, PollFlags::IN)];
            wait(&mut waits, Some(&PATIENCE))?;
            let _ = kill(init, Signal::SIGKILL);
            break;
        }
        adopt(init)?;
    }
    waitpid(init, None)?;
    sweep()
}

/// Collects orphans that have ended.
fn adopt(init: Pid) -> io::Result<()> {
    let me = getpid().as_raw();
    for (child, _) in parents()?.into_iter().filter(|(_, parent)| *parent == me) {
        if child != init.as_raw() {
            let _ = waitpid(Pid::from_raw(child), Some(WaitPidFlag::WNOHANG));
        }
    }
    Ok(())
}

/// Kills every descendant of this process until there is none.
fn sweep() -> io::Result<u32> {
    let mut killed = 0;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return Ok(killed),
            Ok(WaitStatus::StillAlive) => {
                let all = descendants()?;
                // SIGSTOP first: no process can fork while the others are killed.
                for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
                    for process in &all {
                        let _ = kill(*process, signal);
                    }
                }
                // One of them is a child, and ends.
                if let Ok(WaitStatus::Signaled(..) | WaitStatus::Exited(..)) = waitpid(None, None) {
                    killed += 1;
                }
            }
            // Killed already, by the end of its control group or of its process group.
            Ok(WaitStatus::Signaled(..)) => killed += 1,
            Ok(_) => {}
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Every process that descends from this one.
fn descendants() -> io::Result<Vec<Pid>> {
    let parents = parents()?;
    let mut found = vec![getpid().as_raw()];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, p)| **p == parent).map(|(child, _)| *child));
        at += 1;
    }
    Ok(found.into_iter().skip(1).map(Pid::from_raw).collect())
}

/// The parent of every process.
fn parents() -> io::Result<BTreeMap<i32, i32>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // It may be gone by now. The name in parentheses may hold anything.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            parents.insert(pid, parent);
        }
    }
    Ok(parents)
}

pub(super) fn open(process: Pid) -> io::Result<OwnedFd> {
    let process = rustix::process::Pid::from_raw(process.as_raw());
    let process = process.ok_or_else(|| io::Error::other("no process has the number 0"))?;
    Ok(pidfd_open(process, PidfdFlags::empty())?)
}

pub(super) fn wait(waits: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<()> {
    match poll(waits, timeout) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
