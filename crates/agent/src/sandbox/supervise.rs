//! Waiting for processes, and for the agent; and killing what must not stay.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use super::spec::{Ended, KILL, TERMINATE};

/// How often processes that ended in between are collected.
const COLLECT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long the inner helper may take to clean up when the agent is gone.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The inner helper's watch over the command, until nothing of it is left.
pub(super) fn watch(socket: &mut UnixStream, command: u32, is_first: bool) -> io::Result<Ended> {
    let command = pid(command);
    let handle = open(command)?;
    let mut ended = Ended::default();
    while ended.code.is_none() && ended.signal.is_none() {
        let mut waits = [
            PollFd::new(&handle, PollFlags::IN),
            PollFd::new(socket, PollFlags::IN | PollFlags::RDHUP),
        ];
        wait(&mut waits, Some(&COLLECT))?;
        let has_word = !waits[1].revents().is_empty();
        collect(command, &mut ended, Some(WaitPidFlag::WNOHANG))?;
        if has_word {
            let mut word = [0];
            match socket.read(&mut word) {
                Ok(1) if word[0] == TERMINATE => {
                    let _ = killpg(command, Signal::SIGTERM);
                    // What is stopped cannot end by itself.
                    let _ = killpg(command, Signal::SIGCONT);
                }
                Ok(1) if word[0] != KILL => {}
                // It must end, or the agent is gone.
                _ => break,
            }
        }
    }
    let _ = killpg(command, Signal::SIGKILL);
    if is_first && getpid().as_raw() == 1 {
        // Everything in the namespace but this process.
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
    collect(command, &mut ended, None)?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    ended.user_ms = usage.user_time().num_milliseconds().unsigned_abs();
    ended.system_ms = usage.system_time().num_milliseconds().unsigned_abs();
    ended.peak_memory_bytes = usage.max_rss().unsigned_abs() * 1024;
    Ok(ended)
}

/// Collects the processes that have ended, all of them or those that have by now.
fn collect(command: Pid, ended: &mut Ended, flags: Option<WaitPidFlag>) -> io::Result<()> {
    loop {
        let status = match waitpid(None, flags) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            Err(Errno::ECHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match status {
            WaitStatus::StillAlive => return Ok(()),
            WaitStatus::Exited(pid, code) if pid == command => ended.code = Some(code),
            WaitStatus::Signaled(pid, signal, _) if pid == command => {
                ended.signal = Some(signal as i32);
            }
            // Without a flag this is after the end: they were left behind.
            _ if flags.is_none() => ended.left_behind += 1,
            _ => {}
        }
    }
}

/// The outer helper's watch over the inner one: until it has ended, and then, where no pid
/// namespace has seen to it, until nothing is left that lost its parent. How many were killed.
pub(super) fn outlive(socket: &UnixStream, inner: u32, has_namespace: bool) -> io::Result<u32> {
    let inner = pid(inner);
    let handle = open(inner)?;
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
            let _ = kill(inner, Signal::SIGKILL);
            break;
        }
        if !has_namespace {
            adopt(inner)?;
        }
    }
    waitpid(inner, None)?;
    if has_namespace { Ok(0) } else { sweep() }
}

/// Collects orphans that have ended.
fn adopt(inner: Pid) -> io::Result<()> {
    let me = getpid().as_raw();
    for (child, _) in parents()?.into_iter().filter(|(_, parent)| *parent == me) {
        if child != inner.as_raw() {
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
                // First nobody can run away, then nobody is left.
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

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap_or(i32::MAX))
}

fn open(process: Pid) -> io::Result<OwnedFd> {
    let process = rustix::process::Pid::from_raw(process.as_raw());
    let process = process.ok_or_else(|| io::Error::other("no process has the number 0"))?;
    Ok(pidfd_open(process, PidfdFlags::empty())?)
}

fn wait(waits: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<()> {
    match poll(waits, timeout) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
