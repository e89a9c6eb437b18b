//! Which files a command may read and write, and which doors to other processes are shut:
//! landlock.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

use super::mounts;
use super::spec::Spec;
use super::{Feature, Report};

/// The newest features that were tried; older kernels get what they know.
const NEWEST: ABI = ABI::V6;

/// What every command may read and execute.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix/store"];

/// What names of hosts are looked up in, where it is not in `/etc`.
const RESOLVER: &[&str] = &["/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"];

const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The rules for a command, not yet in force.
pub(super) struct Rules(Result<RulesetCreated, RulesetError>);

/// Makes the rules, while every path can still be opened.
pub(super) fn rules(
    spec: &Spec,
    program: Option<&OwnedFd>,
    has_own_proc: bool,
    has_temporary: bool,
) -> Rules {
    Rules(made(spec, program, has_own_proc, has_temporary))
}

fn made(
    spec: &Spec,
    program: Option<&OwnedFd>,
    has_own_proc: bool,
    has_temporary: bool,
) -> Result<RulesetCreated, RulesetError> {
    let everything = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    // What it writes it cannot execute, and devices it cannot make.
    let keep_out: BitFlags<AccessFs> =
        AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let write = everything & !keep_out;
    let execute = AccessFs::Execute | AccessFs::ReadFile;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(NEWEST))?;
    if spec.deny_network {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let own = has_own_proc.then_some("/proc");
    let resolver = RESOLVER.iter().filter(|_| !spec.deny_network);
    let system = SYSTEM.iter().chain(resolver).copied().chain(own);
    rules
        .create()?
        .add_rules(path_beneath_rules(system, read))?
        .add_rules(path_beneath_rules(&spec.readable, read))?
        .add_rules(program.map(|file| Ok::<_, RulesetError>(PathBeneath::new(file, execute))))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules(writable(spec), write))?
        .add_rules(path_beneath_rules(has_temporary.then_some("/tmp"), write))
}

/// What it may write. To run in the root of all folders does not open all of them.
fn writable(spec: &Spec) -> impl Iterator<Item = &Path> {
    let work = Some(spec.working_directory.as_path()).filter(|work| *work != Path::new("/"));
    spec.writable.iter().map(PathBuf::as_path).chain(work)
}

impl Rules {
    /// Puts them in force.
    pub fn enforce(self, spec: &Spec, report: &mut Report) {
        let outcome = self.0.and_then(RulesetCreated::restrict_self);
        let files = match outcome {
            Ok(status) if status.ruleset != RulesetStatus::NotEnforced => {
                Ok(match status.landlock {
                    LandlockStatus::Available { effective_abi, .. } => {
                        format!("landlock {}", effective_abi as i32)
                    }
                    _ => "landlock".to_owned(),
                })
            }
            Ok(_) => Err("the kernel has no landlock, or it is not enabled".to_owned()),
            Err(error) => Err(format!("landlock: {error}")),
        };
        let protected = protected(spec, files.is_ok());
        report.note(Feature::Files, files);
        report.note(Feature::ProtectedFiles, protected);
    }
}

/// Whether the rules or the mounts keep a command from every protected path.
fn protected(spec: &Spec, has_rules: bool) -> Result<String, String> {
    let system = SYSTEM.iter().copied().map(Path::new);
    let given = spec.readable.iter().map(PathBuf::as_path).chain(writable(spec));
    let open: Vec<&Path> = system.chain(given).collect();
    for path in &spec.protected {
        let is_open = !has_rules || open.iter().any(|open| path.starts_with(open));
        if is_open && !mounts::is_hidden(path) {
            return Err(format!("{} can be seen", path.display()));
        }
    }
    Ok("out of reach".to_owned())
}
