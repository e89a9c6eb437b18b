//! The scratch directory of a command that has no root directory of its own: a folder of the
//! machine, which only the command's user can enter, and which is deleted with the run.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, chown, geteuid};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};

use super::spec::User;

/// The prefix of the names of scratch directories; the number of the agent's process follows.
const PREFIX: &str = "punctual-scratch-";

/// A scratch directory. Dropping it deletes it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty one.
    pub fn new(within: &Path, name: &str, user: Option<User>) -> io::Result<Self> {
        let path = within.join(format!("{PREFIX}{}-{name}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        let scratch = Scratch(path);
        if let Some(user) = user {
            chown(&scratch.0, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)))?;
        }
        Ok(scratch)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        delete(&self.0);
    }
}

/// Deletes the scratch directories that agents left behind which were killed.
pub fn sweep(within: &Path, user: Option<User>) {
    let Ok(entries) = fs::read_dir(within) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let Some(process) = process.filter(|process| process.parse::<u32>().is_ok()) else {
            continue;
        };
        let owners = [Some(geteuid().as_raw()), user.map(|user| user.uid)];
        let metadata = fs::symlink_metadata(entry.path()).ok().filter(fs::Metadata::is_dir);
        let is_ours = metadata.is_some_and(|metadata| owners.contains(&Some(metadata.uid())));
        if is_ours && !Path::new("/proc").join(process).exists() {
            delete(&entry.path());
        }
    }
}

/// Deletes a folder. The command may have made some in it that cannot be entered.
fn delete(path: &Path) {
    if fs::remove_dir_all(path).is_ok() {
        return;
    }
    open_folders(CWD, path);
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "scratch directory was not deleted");
    }
}

/// Lets this user enter a folder and those in it. A process that the command left behind could put
/// a link in the place of a folder at any moment, so every step begins at a folder that is open,
/// and follows no link.
fn open_folders(within: BorrowedFd<'_>, name: &Path) {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(handle) = openat(within, name, flags | OFlags::PATH, Mode::empty()) else { return };
    // A folder without permissions can be opened by its path only, and has no other mode call.
    let itself = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let _ = fs::set_permissions(itself, Permissions::from_mode(0o700));
    let Ok(folder) = openat(&handle, ".", flags, Mode::empty()) else { return };
    let Ok(entries) = Dir::read_from(&folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if entry.file_type() == FileType::Directory && ![c".", c".."].contains(&name) {
            open_folders(folder.as_fd(), Path::new(OsStr::from_bytes(name.to_bytes())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_agent_left_behind_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let mine = Scratch::new(dir.path(), "run-1", None).unwrap();
        assert_eq!(fs::metadata(mine.path()).unwrap().mode() & 0o7777, 0o700);
        // No process has this number.
        let left = dir.path().join(format!("{PREFIX}4194305-run-1"));
        fs::create_dir_all(left.join("closed/deep")).unwrap();
        fs::set_permissions(left.join("closed"), Permissions::from_mode(0o000)).unwrap();
        let other = dir.path().join("punctual-scratch-notes");
        fs::create_dir(&other).unwrap();
        let link = dir.path().join(format!("{PREFIX}4194306-run-1"));
        std::os::unix::fs::symlink(&other, &link).unwrap();
        sweep(dir.path(), None);
        assert!(mine.path().exists() && other.exists() && !left.exists());
        assert!(fs::symlink_metadata(&link).is_ok(), "a link is none of ours");
        let path = mine.path().to_owned();
        drop(mine);
        assert!(!path.exists());
    }

    #[test]
    fn folders_are_opened_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, inside) = (dir.path().join("outside"), dir.path().join("inside"));
        fs::create_dir_all(outside.join("deep")).unwrap();
        fs::create_dir_all(inside.join("closed/deep")).unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        for path in [&outside, &outside.join("deep")] {
            set(path, 0o755);
        }
        for path in [&inside.join("closed/deep"), &inside.join("closed")] {
            set(path, 0o000);
        }
        open_folders(CWD, &inside);
        open_folders(CWD, &link);
        for path in ["", "closed", "closed/deep"] {
            assert_eq!(mode(&inside.join(path)), 0o700, "{path}");
        }
        for path in ["", "deep"] {
            assert_eq!(mode(&outside.join(path)), 0o755, "{path}");
        }
    }
}
