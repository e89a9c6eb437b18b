//! The parts of the kernel that a command has no business with: seccomp.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, apply_filter};

use super::bpf::{self, ArgumentCondition, SyscallRule};

/// System calls that fail with EPERM.
const REFUSED: &[i64] = &[
    // Other processes, their memory and their files.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // The kernel itself.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_syslog,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    SYS_QUOTACTL_FD,
    libc::SYS_vhangup,
    // Keys, clocks and names of the machine.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Files by number instead of by path.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// System calls that the helpers need until a command is started.
const HELPERS: &[i64] = &[libc::SYS_mount, libc::SYS_unshare, libc::SYS_setns];

/// System calls that fail with ENOSYS. Programs then use an older call, whose arguments a filter
/// can see, or a file, which cannot be executed.
const UNKNOWN: &[i64] = &[
    libc::SYS_openat2,
    libc::SYS_memfd_create,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    libc::SYS_memfd_secret,
];

/// Memory that belongs to no process, so that the limit of each process does not count it. A set of
/// semaphores takes megabytes of the kernel's.
const SHARED_MEMORY: &[i64] = &[libc::SYS_shmget, libc::SYS_msgget, libc::SYS_semget];

/// The flags of `clone` that make namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// The bits of a file's mode by which a program runs as the file's owner or group.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;

/// The flags with which `open` creates files. The last is two bits, and the other one is that of
/// folders.
const MAKES: i32 = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// Calls that give a file its mode, and the argument that is the mode.
const MODES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
];

/// The same numbers on every processor; the C library's list does not have them everywhere.
const SYS_FCHMODAT2: i64 = 452;
const SYS_QUOTACTL_FD: i64 = 443;

/// Calls that create a file if their flags request it: the arguments that are the flags and the
/// mode.
const OPENS: &[(i64, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// Calls of the x32 kind are numbered from here, and do the same.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: Option<u32> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const OTHER_NUMBERS: Option<u32> = None;

/// How the kernel calls this processor.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00f3);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
const ARCHITECTURE: Option<u32> = None;

/// The bit that types of sockets for datagrams have, and types of connections do not. A datagram
/// socket can be connected to another address, or send to one, even if it was made as a pair.
const DATAGRAM: i32 = libc::SOCK_DGRAM & libc::SOCK_RAW;

/// Which sockets a command may make. Pairs of sockets that are connected for good are always
/// allowed: they lead nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    None,
    /// Those of the network.
    Network,
    /// And those to other processes of this machine by a name.
    NetworkAndUnix,
}

/// A filter, ready to be put in force.
pub(super) struct SyscallFilter(Result<BpfProgram, String>);

impl SyscallFilter {
    /// Denies the calls that neither the launcher nor the helpers need, once the root directory is
    /// built. The launcher puts this filter in force on itself, and every command inherits it.
    pub fn of_launcher(sockets: Sockets) -> Self {
        SyscallFilter::new(&of_launcher(sockets))
    }

    /// Denies the calls that the helpers need and commands do not. Shared memory is refused where
    /// no control group counts it.
    pub fn of_command(allow_shared_memory: bool) -> Self {
        SyscallFilter::new(&of_command(allow_shared_memory))
    }

    fn new(verdicts: &BTreeMap<u32, SyscallRule>) -> Self {
        let Some(architecture) = ARCHITECTURE else {
            return SyscallFilter(Err("no filter for this processor".to_owned()));
        };
        let last = OTHER_NUMBERS.map(|from| (from, SyscallRule::Fail(libc::ENOSYS)));
        let program = bpf::program(architecture, verdicts, last);
        SyscallFilter(program.ok_or_else(|| "the filter is too long".to_owned()))
    }

    /// Puts it in force.
    pub fn enforce(&self) -> Result<(), String> {
        apply_filter(self.0.as_ref()?).map_err(|error| error.to_string())
    }
}

/// A condition for a call, and the error with which the call then fails.
fn fail_if(conditions: Vec<Vec<ArgumentCondition>>) -> SyscallRule {
    SyscallRule::FailIf(libc::EPERM, conditions)
}

fn has(argument: u8, bits: i32) -> ArgumentCondition {
    ArgumentCondition::Has { argument, bits: bits.cast_unsigned() }
}

/// Socket families other than Unix, Internet and netlink routes, which host lookups need: those of
/// virtual machine hosts, devices and parts of the kernel.
fn other_families() -> Vec<Vec<ArgumentCondition>> {
    let mut allowed = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    allowed.sort_unstable();
    let allowed = allowed.map(i32::cast_unsigned);
    let at_least = |value| ArgumentCondition::AtLeast { argument: 0, value };
    let between = allowed.windows(2).filter(|pair| pair[0] + 1 < pair[1]).map(|pair| {
        vec![at_least(pair[0] + 1), ArgumentCondition::Below { argument: 0, value: pair[1] }]
    });
    between.chain(allowed.last().map(|last| vec![at_least(last + 1)])).collect()
}

/// The calls as the filter numbers them.
fn rules(rules: impl IntoIterator<Item = (i64, SyscallRule)>) -> BTreeMap<u32, SyscallRule> {
    let rules = rules.into_iter();
    rules.filter_map(|(call, verdict)| Some((u32::try_from(call).ok()?, verdict))).collect()
}

fn of_launcher(sockets: Sockets) -> BTreeMap<u32, SyscallRule> {
    let refused = REFUSED.iter().map(|call| (*call, SyscallRule::Fail(libc::EPERM)));
    let clone = [
        (libc::SYS_clone3, SyscallRule::Fail(libc::ENOSYS)),
        (libc::SYS_clone, fail_if(vec![vec![has(0, NAMESPACES)]])),
    ];
    let set_id = |argument| ArgumentCondition::Has { argument, bits: SET_ID };
    let modes = MODES.iter().map(|(call, mode)| (*call, fail_if(vec![vec![set_id(*mode)]])));
    let opens = OPENS
        .iter()
        .map(|(call, flags, mode)| (*call, fail_if(vec![vec![has(*flags, MAKES), set_id(*mode)]])));
    let is_unix = vec![ArgumentCondition::Is { argument: 0, value: libc::AF_UNIX.cast_unsigned() }];
    let socket = match sockets {
        Sockets::None => SyscallRule::Fail(libc::EPERM),
        Sockets::Network => fail_if([other_families(), vec![is_unix]].concat()),
        Sockets::NetworkAndUnix => fail_if(other_families()),
    };
    let other = libc::AF_UNIX.cast_unsigned() + 1;
    let mut pairs = vec![vec![ArgumentCondition::AtLeast { argument: 0, value: other }]];
    if sockets != Sockets::NetworkAndUnix {
        pairs.push(vec![has(1, DATAGRAM)]);
    }
    let sockets = [(libc::SYS_socket, socket), (libc::SYS_socketpair, fail_if(pairs))];
    rules(refused.chain(clone).chain(modes).chain(opens).chain(sockets))
}

fn of_command(allow_shared_memory: bool) -> BTreeMap<u32, SyscallRule> {
    let refused = HELPERS.iter().map(|call| (*call, SyscallRule::Fail(libc::EPERM)));
    let unknown = UNKNOWN.iter().map(|call| (*call, SyscallRule::Fail(libc::ENOSYS)));
    // A mapping that grows down is no data to the limit of memory.
    let mut mappings = vec![vec![has(3, libc::MAP_GROWSDOWN)]];
    if !allow_shared_memory {
        mappings.push(vec![has(3, libc::MAP_ANONYMOUS), has(3, libc::MAP_SHARED)]);
    }
    let shared = SHARED_MEMORY.iter().filter(|_| !allow_shared_memory);
    let shared = shared.map(|call| (*call, SyscallRule::Fail(libc::EPERM)));
    rules(refused.chain(unknown).chain(shared).chain([(libc::SYS_mmap, fail_if(mappings))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_are_no_longer_than_programs_may_be() {
        for sockets in [Sockets::None, Sockets::Network, Sockets::NetworkAndUnix] {
            assert_eq!(SyscallFilter::of_launcher(sockets).0.err(), None);
        }
        for allow_shared_memory in [false, true] {
            assert_eq!(SyscallFilter::of_command(allow_shared_memory).0.err(), None);
        }
    }
}
