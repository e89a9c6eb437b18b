//! Which files a command may read and write, and which ways to other processes are closed:
//! landlock.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

use super::spec::Setup;
use super::{Feature, Report, root};

/// The newest features that were tested; older kernels get those that they support.
const NEWEST: ABI = ABI::V6;

const ETC: &str = "/etc";

const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The input of the rules.
pub(super) struct Basis<'a> {
    pub setup: &'a Setup,
    pub program: Option<&'a OwnedFd>,
    pub scratch: &'a Path,
    /// Where the command has its artifact, if it runs one.
    pub artifact: Option<&'a Path>,
    pub has_root: bool,
    /// Whether `/proc` shows the command's own processes only.
    pub has_proc: bool,
}

/// The rules for a command, not yet in force.
pub(super) struct Rules(Result<RulesetCreated, RulesetError>);

impl Rules {
    /// Makes the rules, while every path can still be opened.
    pub fn new(basis: &Basis<'_>) -> Self {
        Rules(made(basis))
    }
}

/// Whether rules can keep a command from abstract sockets, which lie in no folder.
pub(super) fn has_socket_scope() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.scope(Scope::AbstractUnixSocket).is_ok()
}

fn made(basis: &Basis<'_>) -> Result<RulesetCreated, RulesetError> {
    let setup = basis.setup;
    let everything = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    // A command cannot execute the files that it writes, and cannot make devices.
    let keep_out: BitFlags<AccessFs> =
        AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let write = everything & !keep_out;
    let execute = AccessFs::Execute | AccessFs::ReadFile;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(NEWEST))?;
    if setup.deny_network {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let created = rules.create()?;
    // Everything in a root of its own may be read: few rules are faster than many.
    let created = if basis.has_root && basis.has_proc {
        let look = AccessFs::ReadFile | AccessFs::ReadDir;
        let of_etc = |path: &&PathBuf| !path.starts_with(ETC);
        created
            .add_rules(path_beneath_rules(["/"], look))?
            .add_rules(path_beneath_rules(setup.layout.readable.iter().filter(of_etc), read))?
            .add_rules(path_beneath_rules(["/dev"], device))?
    } else {
        let copied = setup.layout.copies.iter().map(|(_, from)| from.as_path());
        let own = basis.has_proc.then_some(Path::new("/proc"));
        let file = basis.program;
        let program = file.map(|file| Ok::<_, RulesetError>(PathBeneath::new(file, execute)));
        created
            .add_rules(path_beneath_rules(copied.chain([Path::new(ETC)]).chain(own), read))?
            .add_rules(path_beneath_rules(&setup.layout.readable, read))?
            .add_rules(program)?
            .add_rules(path_beneath_rules(DEVICES, device))?
    };
    created
        .add_rules(path_beneath_rules(basis.artifact, read))?
        .add_rules(path_beneath_rules(&setup.layout.writable, write))?
        .add_rules(path_beneath_rules([basis.scratch], write))
}

impl Rules {
    /// Puts them in force.
    pub fn enforce(self, setup: &Setup, report: &mut Report) {
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
        let protected = protected(setup, files.is_ok());
        report.note(Feature::Files, files);
        report.note(Feature::ProtectedFiles, protected);
    }
}

/// Whether the rules or the mounts keep a command from every protected path.
fn protected(setup: &Setup, has_rules: bool) -> Result<String, String> {
    let given = setup.layout.readable.iter().chain(&setup.layout.writable).map(PathBuf::as_path);
    let open: Vec<&Path> = given.chain([Path::new(ETC)]).collect();
    for path in &setup.layout.protected {
        let is_open = !has_rules || open.iter().any(|open| path.starts_with(open));
        if is_open && !root::is_hidden(path) {
            return Err(format!("{} can be seen", path.display()));
        }
    }
    Ok("out of reach".to_owned())
}
