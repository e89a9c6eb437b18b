//! Memory that the limit of each process does not count.

use agent::sandbox::Level;

use super::{World, has};

/// Takes memory in each possible way, far beyond the limit, and prints the results.
const TAKE: &str = r#"
import ctypes, errno, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
size = 256 << 20
GROWSDOWN = 0x100
def attempt(name, action):
    try:
        print(name, action())
    except OSError as error:
        print(name, errno.errorcode[error.errno])
def raw(flags, descriptor=-1):
    address = libc.mmap(None, ctypes.c_size_t(size), 3, flags, descriptor, ctypes.c_long(0))
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    return "taken"
private, shared, anonymous = mmap.MAP_PRIVATE, mmap.MAP_SHARED, mmap.MAP_ANONYMOUS
attempt("private", lambda: raw(private | anonymous))
attempt("shared", lambda: raw(shared | anonymous))
attempt("validated", lambda: raw(3 | anonymous))
attempt("stack", lambda: raw(private | anonymous | GROWSDOWN))
def zero():
    descriptor = os.open("/dev/zero", os.O_RDWR)
    assert os.read(descriptor, 3) == b"\0\0\0"
    return raw(shared, descriptor)
attempt("zero", zero)
attempt("memory file", lambda: "taken" if os.memfd_create("x") else "")
def segment():
    number = libc.shmget(0, ctypes.c_size_t(size), 0o1600)
    if number < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    libc.shmctl(number, 0, None)
    return "taken"
attempt("segment", segment)
def semaphores():
    number = libc.semget(0, 32000, 0o1600)
    if number < 0:
        raise OSError(ctypes.get_errno(), "semget")
    libc.semctl(number, 0, 0)
    return "taken"
attempt("semaphores", semaphores)
def posix():
    descriptor = os.open("/dev/shm/x", os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(descriptor, 0, size)
    return "taken"
attempt("posix", posix)
"#;

#[tokio::test]
async fn no_memory_escapes_the_limit() {
    let mut world = World::new();
    world.options.limits.memory_bytes = 64 << 20;
    world.options.limits.scratch_bytes = 64 << 20;
    let outcome = world.run(&world.python(TAKE)).await;
    assert!(has(&outcome, "memory"));
    if has(&outcome, "control_group") {
        return;
    }
    let expected = "private ENOMEM\nshared EPERM\nvalidated EPERM\nstack EPERM\nzero ENODEV\n\
                    memory file ENOSYS\nsegment EPERM\nsemaphores EPERM\nposix ENOSPC\n";
    assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
    world.options.sandbox = Level::Off;
    let outcome = world.run(&world.python(TAKE)).await;
    let taken = outcome.stdout.lines().filter(|line| line.ends_with(" taken")).count();
    assert!(taken >= 6, "without a sandbox it is taken: {} {}", outcome.stdout, outcome.stderr);
}

#[tokio::test]
async fn the_stack_is_limited_too() {
    let mut world = World::new();
    world.options.limits.memory_bytes = 32 << 20;
    let outcome = world.run(&world.script("ulimit -Hs; ulimit -s unlimited; ulimit -s")).await;
    let stack = (32 << 20) / 1024;
    assert_eq!(outcome.stdout.lines().next(), Some(stack.to_string().as_str()));
    assert!(!outcome.stdout.contains("unlimited"), "{}", outcome.stdout);
}

#[tokio::test]
async fn programs_that_share_memory_by_files_work() {
    let world = World::new();
    let program = "from multiprocessing import Process, Value, Lock\n\
                   def add(value):\n    with value.get_lock(): value.value += 1\n\
                   value = Value('i', 0)\n\
                   workers = [Process(target=add, args=(value,)) for _ in range(4)]\n\
                   for worker in workers: worker.start()\n\
                   for worker in workers: worker.join()\n\
                   print(value.value)";
    let outcome = world.run(&world.python(program)).await;
    assert_eq!(outcome.stdout, "4\n", "{}", outcome.stderr);
}
