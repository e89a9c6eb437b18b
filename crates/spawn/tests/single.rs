//! Tests in a process with one thread. They have no harness, because a harness would start threads.

extern crate punctual_spawn as spawn;

use std::io::{Read, pipe};
use std::os::fd::AsRawFd;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus};
use nix::unistd::{chdir, dup2_stdout};
use spawn::{Forked, Program, SpawnError, Stack, exit, fork, spawn, wait};

fn main() {
    a_fork_is_waited_for();
    a_program_runs_in_a_child_that_was_prepared();
    what_goes_wrong_in_the_child_is_told();
    a_broken_pipe_ends_the_program();
    a_stack_that_is_too_small_ends_the_child();
    println!("test single ... ok");
}

fn ended() -> WaitStatus {
    wait(None).unwrap().expect("it waits").0
}

fn a_fork_is_waited_for() {
    match fork().expect("one thread") {
        Forked::Child => exit(7),
        Forked::Parent(child) => assert_eq!(ended(), WaitStatus::Exited(child, 7)),
    }
    assert!(wait(Some(WaitPidFlag::WNOHANG)).is_err(), "there is no child");
}

fn a_program_runs_in_a_child_that_was_prepared() {
    let (mut reader, writer) = pipe().unwrap();
    let arguments = ["sh", "-c", "pwd; echo $A; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"];
    let program = Program::new("/bin/sh", arguments, ["A=b c"]).unwrap();
    let mut stack = Stack::new().unwrap();
    let here = std::fs::canonicalize(".").unwrap();
    let mut seen = Vec::new();
    let child = spawn(&mut stack, &program, || {
        seen.push("in the child".to_owned());
        dup2_stdout(&writer)?;
        chdir("/usr")
    });
    let child = child.expect("it starts");
    drop(writer);
    assert_eq!(seen, ["in the child"], "the memory is the same");
    assert_eq!(std::fs::canonicalize(".").unwrap(), here, "the folder is not");
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert_eq!(said, "/usr\nb c\n");
    let (status, usage) = wait(None).unwrap().unwrap();
    assert_eq!(status, WaitStatus::Exited(child, 0));
    assert!(usage.user.as_micros() > 0 && usage.peak_memory_bytes > 100_000, "{usage:?}");
}

fn what_goes_wrong_in_the_child_is_told() {
    let mut stack = Stack::new().unwrap();
    let program = Program::new("/no/such/program", ["x"], [""; 0]).unwrap();
    let failed = spawn(&mut stack, &program, || Err::<(), _>("not today".to_owned()));
    assert!(matches!(&failed, Err(SpawnError::Prepare(why)) if why == "not today"), "{failed:?}");
    let failed = spawn(&mut stack, &program, || Ok::<(), ()>(()));
    let Err(SpawnError::Execute(error)) = failed else { panic!("{failed:?}") };
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert!(wait(Some(WaitPidFlag::WNOHANG)).is_err(), "no child is left");
    assert!(Program::new("/bin/true", ["a\0b"], [""; 0]).is_err());
}

fn a_broken_pipe_ends_the_program() {
    let (reader, writer) = pipe().unwrap();
    assert!(writer.as_raw_fd() > 2);
    drop(reader);
    let program = Program::new("/bin/sh", ["sh", "-c", "echo x; exit 3"], [""; 0]).unwrap();
    let mut stack = Stack::new().unwrap();
    let child = spawn(&mut stack, &program, || dup2_stdout(&writer)).expect("it starts");
    assert_eq!(ended(), WaitStatus::Signaled(child, Signal::SIGPIPE, false));
}

fn a_stack_that_is_too_small_ends_the_child() {
    // Keeps the compiler from turning the recursion into a loop.
    fn descend(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 128]);
        if depth == 0 { 0 } else { descend(depth - 1) + frame[std::hint::black_box(7)] }
    }
    let program = Program::new("/bin/true", ["true"], [""; 0]).unwrap();
    let mut stack = Stack::new().unwrap();
    let child = spawn(&mut stack, &program, || {
        std::hint::black_box(descend(100_000));
        Ok::<(), ()>(())
    });
    let child = child.expect("it ends by a signal, like a command");
    let status = ended();
    assert!(matches!(status, WaitStatus::Signaled(pid, _, _) if pid == child), "{status:?}");
}
