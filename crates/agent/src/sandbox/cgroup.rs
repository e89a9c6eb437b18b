//! A control group for each command, where version 2 is mounted and this process may make one:
//! limits for all of its processes together, and one write that kills them all.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::spec::Limits;

/// How often and how long a group that still has processes is waited for.
const WAIT: Duration = Duration::from_millis(5);
const WAITS: u32 = 200;

/// The prefix of the names of groups; the number of the agent's process follows.
const PREFIX: &str = "punctual-";

/// Removes the groups of agents that were killed. A group that has processes stays: it is in use.
pub fn sweep() {
    let Ok(entries) = own_folder().and_then(fs::read_dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let is_ours = process.is_some_and(|process| process.parse::<u32>().is_ok());
        let is_alive = process.is_some_and(|process| Path::new("/proc").join(process).exists());
        if is_ours && !is_alive {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether a group would limit anything: whether the group of this process delegates one of the
/// controllers.
pub fn has_limits() -> bool {
    let given = own_folder().and_then(|own| fs::read_to_string(own.join("cgroup.subtree_control")));
    given.is_ok_and(|given| given.split_whitespace().any(|name| matches!(name, "memory" | "pids")))
}

/// The group of one command. Dropping it kills whatever is in it.
pub struct Cgroup {
    folder: PathBuf,
    is_gone: bool,
    /// Whether it limits memory.
    pub has_memory: bool,
}

impl Cgroup {
    /// Makes a group with this name under the one of this process. Also returns which of the limits
    /// the group enforces.
    pub fn new(name: &str, limits: &Limits) -> io::Result<(Self, String)> {
        let folder = own_folder()?.join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir(&folder)?;
        let mut group = Cgroup { folder, is_gone: false, has_memory: false };
        let mut does = vec!["kill"];
        let maxima = [
            ("memory", "memory.max", limits.memory_bytes),
            ("processes", "pids.max", limits.processes),
        ];
        for (what, file, value) in maxima {
            // The file exists when the parent group delegates the controller.
            if fs::write(group.folder.join(file), value.to_string()).is_ok() {
                does.push(what);
                group.has_memory |= what == "memory";
            }
        }
        // Without swap a limit of memory is one; with it, the rest would just move there.
        let _ = fs::write(group.folder.join("memory.swap.max"), "0");
        Ok((group, does.join(", ")))
    }

    /// The file by which a process enters it: by writing 0.
    pub fn entrance(&self) -> io::Result<OwnedFd> {
        Ok(OpenOptions::new().write(true).open(self.folder.join("cgroup.procs"))?.into())
    }

    /// Kills everything in it.
    pub fn kill(&self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }

    /// Kills everything in it and takes it away. False when something in it does not die.
    pub async fn end(mut self) -> bool {
        self.kill();
        for _ in 0..WAITS {
            if fs::remove_dir(&self.folder).is_ok() {
                self.is_gone = true;
                break;
            }
            tokio::time::sleep(WAIT).await;
        }
        self.is_gone
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if self.is_gone {
            return;
        }
        self.kill();
        if fs::remove_dir(&self.folder).is_ok() {
            return;
        }
        // Its processes are about to end. The caller does not wait, so a thread does.
        let folder = std::mem::take(&mut self.folder);
        let wait = move || {
            #[expect(clippy::disallowed_methods, reason = "there is no event for an empty group")]
            for _ in 0..WAITS {
                if fs::remove_dir(&folder).is_ok() {
                    return;
                }
                std::thread::sleep(WAIT);
            }
        };
        let _ = std::thread::Builder::new().name("cgroup".into()).spawn(wait);
    }
}

/// The group of this process, as a folder.
fn own_folder() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    find(&mounts, &own).ok_or_else(|| io::Error::other("control groups 2 are not mounted"))
}

fn find(mounts: &str, own: &str) -> Option<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let is_cgroup = after.split(' ').next() == Some("cgroup2");
        is_cgroup.then(|| before.split(' ').nth(4)).flatten()
    })?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(Path::new(mount).join(own.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_process_is_found() {
        let only = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let both = "24 1 0:5 / /sys rw - sysfs sysfs rw\n30 24 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n";
        for (mounts, own, folder) in [
            (
                only,
                "0::/system.slice/punctual.service\n",
                Some("/sys/fs/cgroup/system.slice/punctual.service"),
            ),
            (both, "8:pids:/a\n0::/\n", Some("/sys/fs/cgroup/unified/")),
            ("24 1 0:5 / /sys rw - sysfs sysfs rw\n", "0::/\n", None),
            (only, "8:pids:/a\n", None),
        ] {
            assert_eq!(find(mounts, own).as_deref(), folder.map(Path::new));
        }
    }
}
