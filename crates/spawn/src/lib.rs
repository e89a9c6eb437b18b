//! Starting processes from a process with one thread: [`fork`], [`spawn`], [`wait`] and [`exit`];
//! and [`limit_arenas`], a setting of the process's own allocator.
//!
//! These are safe functions around unsafe calls of the C library. To fork a process with several
//! threads is unsafe, because the others do not exist in the child and may have held locks, such as
//! the allocator's. A process with one thread has no such problem. So [`fork`] and [`spawn`] ask
//! the kernel how many threads the process has, and refuse unless the caller is the only one.

mod program;
mod stack;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, clone};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};

pub use program::Program;
pub use stack::Stack;

/// Which of the two processes the caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forked {
    /// The parent, and the number of its child.
    Parent(Pid),
    /// The child.
    Child,
}

/// Forks this process. Fails if it has several threads, or if `/proc` does not show how many.
#[expect(unsafe_code, reason = "the process was just seen to have one thread, this one")]
pub fn fork() -> io::Result<Forked> {
    be_alone()?;
    // SAFETY: fork is unsafe only where other threads exist. There is none, and only this thread
    // could start one.
    Ok(match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Forked::Parent(child),
        ForkResult::Child => Forked::Child,
    })
}

/// Ends this process at once. Exit handlers of the parent (writing buffers, deleting files, closing
/// libraries) do not run.
#[expect(unsafe_code, reason = "nothing is used any more")]
pub fn exit(code: i32) -> ! {
    // SAFETY: it does not return, and reads nothing but its argument.
    unsafe { libc::_exit(code) }
}

/// Limits the number of arenas that the C library's allocator creates, to `count`. An arena keeps
/// the most that was ever allocated from it, and by default there are eight for each processor: a
/// burst of requests on many threads then stays resident several times over.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a setting of the allocator")]
pub fn limit_arenas(count: usize) {
    // SAFETY: mallopt reads its two arguments and changes a limit inside the allocator.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, i32::try_from(count).unwrap_or(i32::MAX)) };
}

/// Other C libraries have no arenas to limit.
#[cfg(not(target_env = "gnu"))]
pub fn limit_arenas(_count: usize) {}

/// Why a program was not started.
#[derive(Debug)]
pub enum SpawnError<E> {
    /// There is no child.
    Fork(io::Error),
    /// The child could not be prepared.
    Prepare(E),
    /// The child could not execute the program.
    Execute(io::Error),
}

/// Starts a program in a child process, after `prepare` has run there.
///
/// The child has the memory of this process, which stands still until the program is executed. So
/// nothing is copied, which makes this several times faster than [`fork`], and what `prepare` writes
/// to variables can be read here afterwards. Everything else is the child's own: descriptors,
/// folder, signals, limits, credentials, namespaces. Descriptors that `prepare` opens must not leave
/// it, because here they do not exist. It should free what it allocates before it returns, as every
/// function does; a panic in it ends the child.
#[expect(unsafe_code, reason = "this process stands still until its only child has executed")]
pub fn spawn<E>(
    stack: &mut Stack,
    program: &Program,
    mut prepare: impl FnMut() -> Result<(), E>,
) -> Result<Pid, SpawnError<E>> {
    be_alone().map_err(SpawnError::Fork)?;
    let (arguments, environment) = (program.arguments(), program.environment());
    let mut outcome = None;
    let child = || {
        if let Err(error) = prepare() {
            outcome = Some(SpawnError::Prepare(error));
            return 127;
        }
        // SAFETY: no handler is installed, and the table of handlers is the child's own. Rust
        // programs ignore this signal, others expect the default.
        let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
        // SAFETY: the path and the strings of both arrays end with a zero byte, the arrays with a
        // null pointer, and all of them outlive the child.
        unsafe {
            libc::execve(program.path().as_ptr(), arguments.as_ptr(), environment.as_ptr());
        }
        outcome = Some(SpawnError::Execute(Errno::last().into()));
        127
    };
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: the child uses the memory of this process, but not at the same time: there is one
    // thread, and the kernel lets it go on when the child has executed a program or has ended. It
    // has a stack of its own with a guard, and its function does not return to a frame of this one.
    let pid = unsafe { clone(Box::new(child), stack.bytes(), flags, Some(libc::SIGCHLD)) };
    let pid = pid.map_err(|error| SpawnError::Fork(error.into()))?;
    match outcome {
        None => Ok(pid),
        Some(error) => {
            let _ = waitpid(pid, None);
            Err(error)
        }
    }
}

/// The resource usage of a process and of its children that it has waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of the programs.
    pub user: Duration,
    /// Processor time of the kernel.
    pub system: Duration,
    /// The memory of the largest process.
    pub peak_memory_bytes: u64,
}

/// Waits for any child, and returns how it ended and its resource usage. None if it must not block
/// and no child has ended.
#[expect(unsafe_code, reason = "the C library's own structures are filled")]
pub fn wait(flags: Option<WaitPidFlag>) -> io::Result<Option<(WaitStatus, Usage)>> {
    let flags = flags.map_or(0, |flags| flags.bits());
    let mut status = 0;
    // SAFETY: the structure consists of numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to variables that live until it returns.
    let waited = unsafe { libc::wait4(-1, &raw mut status, flags, &raw mut usage) };
    let pid = Errno::result(waited)?;
    if pid == 0 {
        return Ok(None);
    }
    let time = |time: libc::timeval| {
        let micros = time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_usec);
        Duration::from_micros(micros.unsigned_abs())
    };
    let usage = Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        peak_memory_bytes: usage.ru_maxrss.unsigned_abs().saturating_mul(1024),
    };
    Ok(Some((WaitStatus::from_raw(Pid::from_raw(pid), status)?, usage)))
}

/// Fails unless this process has one thread. The number of links of the folder is the number of its
/// entries plus two.
fn be_alone() -> io::Result<()> {
    match fs::metadata("/proc/self/task")?.nlink() {
        3 => Ok(()),
        _ => Err(io::Error::other("a process with several threads cannot be forked safely")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_several_threads_is_not_forked() {
        // The test runs in a thread next to the main one.
        assert!(fork().unwrap_err().to_string().contains("several threads"));
        let program = Program::new("/bin/true", ["true"], [""; 0]).unwrap();
        let spawned = spawn(&mut Stack::new().unwrap(), &program, || Ok::<(), ()>(()));
        assert!(matches!(spawned, Err(SpawnError::Fork(_))), "{spawned:?}");
    }
}
