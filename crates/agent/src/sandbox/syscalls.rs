//! The parts of the kernel that a command has no business with: seccomp.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// What fails with "not permitted".
const REFUSED: &[i64] = &[
    // Other processes, their memory and their files.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Mounts and namespaces.
    libc::SYS_mount,
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
    libc::SYS_setns,
    libc::SYS_unshare,
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
];

/// The flags of `clone` that make namespaces.
const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// The kinds of sockets that lead out of the machine.
const FAMILIES: &[i32] = &[libc::AF_INET, libc::AF_INET6, libc::AF_PACKET, libc::AF_VSOCK];

/// Calls of the x32 kind are numbered from here, and do the same.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: &[i64] = &[0, 0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const OTHER_NUMBERS: &[i64] = &[0];

/// Puts the filter in force.
pub(super) fn filter(deny_network: bool) -> Result<String, String> {
    try_filter(deny_network).map_err(|error| error.to_string())?;
    Ok(format!("seccomp, {} calls refused", REFUSED.len()))
}

fn try_filter(deny_network: bool) -> Result<(), seccompiler::Error> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut ask_otherwise = BTreeMap::new();
    for base in OTHER_NUMBERS {
        for call in REFUSED {
            refused.insert(base + call, Vec::new());
        }
        let mut clone = Vec::new();
        for flag in NAMESPACES {
            clone.push(bits(*flag as u64)?);
        }
        refused.insert(base + libc::SYS_clone, clone);
        if deny_network {
            let mut socket = Vec::new();
            for family in FAMILIES {
                socket.push(equal(*family as u64)?);
            }
            refused.insert(base + libc::SYS_socket, socket);
        }
        // Its flags are in memory, where no filter can see them. Told that there is no such call,
        // programs use the older one.
        ask_otherwise.insert(base + libc::SYS_clone3, Vec::new());
    }
    apply(ask_otherwise, libc::ENOSYS)?;
    apply(refused, libc::EPERM)
}

fn apply(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<(), seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(error as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    apply_filter(&BpfProgram::try_from(filter)?)
}

/// The first argument has these bits.
fn bits(bits: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    first(SeccompCmpOp::MaskedEq(bits), bits)
}

/// The first argument is this number.
fn equal(number: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    first(SeccompCmpOp::Eq, number)
}

fn first(compare: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Dword, compare, value)?])
}
