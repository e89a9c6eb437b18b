//! The root directory of commands: a small file system in memory with the files that a command
//! needs, and nothing else of the machine.
//!
//! ```text
//! /usr /bin /lib …       of the system       read-only
//! /etc                   a few files          read-only
//! /dev                   five devices
//! /proc                  the command's own processes
//! /tmp                   the scratch directory: empty, in memory, limited, not executable
//! /artifact              the artifact that the command runs, read-only
//! allowed, readable      at their own places  read-only
//! writable               at their own places  not executable
//! ```
//!
//! The launcher [builds](build) it once, in its own mount namespace. Every init process gets a copy
//! of the namespace with [its own `/proc`](mount_proc), and every command a copy of that with [its
//! own scratch directory](mount_scratch).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{chdir, pivot_root};

use super::layout::Layout;
use super::spec::Setup;

const NONE: Option<&str> = None;

/// Where all unpacked artifacts are until a command has its own. No command sees it.
const ARTIFACTS: &str = "/.artifacts";

/// Where a command has its artifact.
pub(super) const ARTIFACT: &str = "/artifact";

/// Where the machine's root directory is while the command's is built.
const HOST: &str = "/.host";

/// The devices that a command has, and which of the machine's they are. To map `/dev/zero` gives
/// shared memory that no limit counts; `/dev/full` reads the same and cannot be mapped.
const DEVICES: &[(&str, &str)] = &[
    ("/dev/null", "/dev/null"),
    ("/dev/zero", "/dev/full"),
    ("/dev/full", "/dev/full"),
    ("/dev/random", "/dev/random"),
    ("/dev/urandom", "/dev/urandom"),
];

/// Links that programs expect beside the devices.
const DEVICE_LINKS: &[(&str, &str)] = &[
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// How many files and folders a scratch directory holds at most: each takes memory of the kernel.
const SCRATCH_INODES: u64 = 100_000;

/// Mount flags of an in-memory file system with files of a command.
const INERT: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC);

/// Makes the root directory that every command gets a copy of, the root of this process. When that
/// fails, this process has the machine's root directory as before.
pub(super) fn build(layout: &Layout) -> Result<(), String> {
    let before = File::open("/proc/self/ns/mnt").map_err(|error| error.to_string())?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("no mount namespace: {error}"))?;
    let mask = umask(Mode::from_bits_truncate(0o022));
    let built = assemble(layout);
    umask(mask);
    built.inspect_err(|_| {
        let _ = setns(before, CloneFlags::CLONE_NEWNS);
    })
}

fn assemble(layout: &Layout) -> Result<(), String> {
    let all = layout.readable.iter().chain(&layout.writable);
    if all.clone().any(|path| path.parent().is_none()) {
        return Err("a command that may see / has no root of its own".to_owned());
    }
    // Mounts and unmounts on the machine propagate to commands as well.
    at("/", mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_SLAVE, NONE))?;
    let staging = "/tmp";
    let options = Some("mode=755,size=32m");
    at(staging, mount(Some("tmpfs"), staging, Some("tmpfs"), INERT, options))?;
    let host = format!("{staging}{HOST}");
    at(&host, fs::create_dir(&host))?;
    at(staging, pivot_root(staging, host.as_str()))?;
    at("/", chdir("/"))?;
    // Nothing of the machine is mounted yet, so nothing of it can be written to by mistake.
    furnish(layout)?;
    let mut binds: Vec<&PathBuf> = all.collect();
    binds.sort();
    // A path that was removed meanwhile is not mounted.
    for path in binds.into_iter().filter(|path| on_host(path).exists()) {
        bind(path, path)?;
    }
    if let Some(artifacts) = &layout.artifacts {
        bind(artifacts, Path::new(ARTIFACTS))?;
    }
    for (device, of) in DEVICES {
        bind(Path::new(of), Path::new(device))?;
    }
    if mount(Some("proc"), "/proc", Some("proc"), INERT, NONE).is_err() {
        // The launcher needs one. Commands are kept from it by the rules for files.
        bind(Path::new("/proc"), Path::new("/proc"))?;
    }
    restrict(layout)?;
    for path in &layout.protected {
        // Where this fails, whether the path can be read is up to the rules for files.
        let _ = hide(path);
    }
    at(HOST, umount2(HOST, MntFlags::MNT_DETACH))?;
    at(HOST, fs::remove_dir(HOST))?;
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | INERT;
    at("/", mount(NONE, "/", NONE, flags, NONE))
}

/// Makes the folders that something is mounted on, the links and the copies.
fn furnish(layout: &Layout) -> Result<(), String> {
    for folder in
        ["/dev", "/etc", "/proc", "/var"].map(Path::new).into_iter().chain([&*layout.scratch])
    {
        at(folder, fs::create_dir_all(folder))?;
    }
    if layout.artifacts.is_some() {
        for folder in [ARTIFACTS, ARTIFACT] {
            at(folder, fs::create_dir(folder))?;
        }
    }
    for path in layout.readable.iter().chain(&layout.writable) {
        at(path, place(path))?;
    }
    for (device, _) in DEVICES {
        at(device, File::create(device).map(drop))?;
    }
    for (path, from) in &layout.copies {
        // It may have gone meanwhile.
        if let (Ok(content), Some(folder)) = (fs::read(on_host(from)), path.parent()) {
            at(path, fs::create_dir_all(folder).and_then(|()| fs::write(path, content)))?;
        }
    }
    let links = layout.links.iter().map(|(at, to)| (at.as_path(), to.as_path()));
    let devices = DEVICE_LINKS.iter().map(|(at, to)| (Path::new(at), Path::new(to)));
    for (path, to) in links.chain(devices) {
        // Where something is already, or will be, no link is needed.
        let _ = path.parent().map(fs::create_dir_all);
        let _ = symlink(to, path);
    }
    Ok(())
}

/// Makes a file or folder for something to be mounted on.
fn place(path: &Path) -> io::Result<()> {
    match fs::metadata(on_host(path)) {
        Ok(metadata) if metadata.is_dir() => fs::create_dir_all(path),
        Ok(_) => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            File::create(path).map(drop)
        }
        // It has gone meanwhile.
        Err(_) => Ok(()),
    }
}

fn on_host(path: &Path) -> PathBuf {
    Path::new(HOST).join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts something of the machine, with all that is mounted beneath.
fn bind(from: &Path, to: &Path) -> Result<(), String> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    at(to, mount(Some(&on_host(from)), to, NONE, flags, NONE))
}

/// Sets the flags of every mount. A mount beneath a folder does not inherit those of the folder.
fn restrict(layout: &Layout) -> Result<(), String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo");
    let mounts = mounts.map_err(|error| format!("the mounts cannot be read: {error}"))?;
    for (path, flags) in mounts.lines().filter_map(read_mount) {
        let is_under = |list: &[PathBuf]| {
            let above = list.iter().filter(|above| path.starts_with(above));
            above.map(|above| above.components().count()).max()
        };
        let more = match (is_under(&layout.readable), is_under(&layout.writable)) {
            _ if path.starts_with(HOST) || path.starts_with("/proc") || path == Path::new("/") => {
                continue;
            }
            _ if path.starts_with("/dev") && path.parent() == Some(Path::new("/dev")) => {
                MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC
            }
            (readable, writable) if writable > readable => INERT,
            _ => MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        };
        let flags = flags | more | MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
        if let Err(error) = mount(NONE, &path, NONE, flags, NONE) {
            // Better without it than without its flags.
            umount2(&path, MntFlags::MNT_DETACH).map_err(|_| format!("{path:?}: {error}"))?;
        }
    }
    Ok(())
}

/// Where something is mounted, and how, from a line of `mountinfo`.
fn read_mount(line: &str) -> Option<(PathBuf, MsFlags)> {
    let mut fields = line.split(' ').skip(4);
    let path = unescape(fields.next()?);
    let flags = fields.next()?.split(',').fold(MsFlags::empty(), |flags, option| {
        flags
            | match option {
                "ro" => MsFlags::MS_RDONLY,
                "nosuid" => MsFlags::MS_NOSUID,
                "nodev" => MsFlags::MS_NODEV,
                "noexec" => MsFlags::MS_NOEXEC,
                "noatime" => MsFlags::MS_NOATIME,
                "nodiratime" => MsFlags::MS_NODIRATIME,
                "relatime" => MsFlags::MS_RELATIME,
                _ => MsFlags::empty(),
            }
    });
    Some((path, flags))
}

/// A path in which spaces, tabs, line breaks and backslashes are three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// Puts something empty in the place of a file or folder.
fn hide(path: &Path) -> nix::Result<()> {
    if path.is_dir() {
        let flags = MsFlags::MS_RDONLY | INERT;
        mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some("size=4k,mode=000"))
    } else if path.exists() {
        mount(Some("/dev/null"), path, NONE, MsFlags::MS_BIND, NONE)
    } else {
        Ok(())
    }
}

/// Whether something empty stands in the place of a file or folder.
pub(super) fn is_hidden(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            use std::os::unix::fs::MetadataExt;
            let above = path.parent().and_then(|above| fs::metadata(above).ok());
            let is_mount = above.is_some_and(|above| above.dev() != metadata.dev());
            is_mount && metadata.mode() & 0o777 == 0
        }
        Ok(metadata) => !metadata.is_file(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Gives this process a copy of the root directory where `/proc` shows the processes of its own pid
/// namespace. Whether that worked.
pub(super) fn mount_proc() -> bool {
    unshare(CloneFlags::CLONE_NEWNS).is_ok()
        && mount(Some("proc"), "/proc", Some("proc"), INERT, NONE).is_ok()
}

/// Gives this process, which has a mount namespace of its own, a scratch directory in its copy of
/// the root directory.
pub(super) fn mount_scratch(setup: &Setup) -> Result<(), String> {
    let owner = setup.user.map_or_else(
        || (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw()),
        |user| (user.uid, user.gid),
    );
    let options = format!(
        "size={},nr_inodes={SCRATCH_INODES},mode=700,uid={},gid={}",
        setup.limits.scratch_bytes, owner.0, owner.1
    );
    let scratch = setup.layout.scratch.as_path();
    at(scratch, mount(Some("tmpfs"), scratch, Some("tmpfs"), INERT, Some(options.as_str())))
}

/// Where an unpacked artifact is in the root directory that the launcher has built.
pub(super) fn artifact_before_mount(folder: &Path) -> PathBuf {
    Path::new(ARTIFACTS).join(folder.file_name().unwrap_or_default())
}

/// Gives this process, which has a mount namespace of its own, its artifact in its copy of the root
/// directory, and takes the others away.
pub(super) fn mount_artifact(layout: &Layout, folder: Option<&Path>) -> Result<(), String> {
    if layout.artifacts.is_none() {
        return Ok(());
    }
    if let Some(folder) = folder {
        let from = artifact_before_mount(folder);
        at(ARTIFACT, mount(Some(&from), ARTIFACT, NONE, MsFlags::MS_BIND, NONE))?;
        let flags = MsFlags::MS_REMOUNT
            | MsFlags::MS_BIND
            | MsFlags::MS_RDONLY
            | MsFlags::MS_NOSUID
            | MsFlags::MS_NODEV;
        at(ARTIFACT, mount(NONE, ARTIFACT, NONE, flags, NONE))?;
    }
    // The filter of the launcher lets no process unmount, so something empty covers them. No command
    // can take it away.
    at(ARTIFACTS, hide(Path::new(ARTIFACTS)))
}

/// An error with its path.
fn at<T, E: std::fmt::Display>(path: impl AsRef<Path>, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("{}: {error}", path.as_ref().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_flags() {
        let line =
            "36 35 98:0 /mnt1 /mnt\\040two\\134 ro,noatime,nosuid shared:1 - ext3 /dev/root rw";
        let (path, flags) = read_mount(line).unwrap();
        assert_eq!(path, Path::new("/mnt two\\"));
        assert_eq!(flags, MsFlags::MS_RDONLY | MsFlags::MS_NOATIME | MsFlags::MS_NOSUID);
        assert_eq!(read_mount("36 35"), None);
        assert_eq!(unescape("/a\\9"), Path::new("/a\\9"));
        assert_eq!(unescape("/a\\"), Path::new("/a\\"));
    }
}
