//! The content of a command's root directory, as the agent finds it on the machine.
//!
//! The launcher builds the root once and every command gets a copy of its mounts. A mounted folder
//! shows its current content, but a file or folder that was replaced under its name would stay the
//! old one. So a layout remembers the files that it saw, and the agent starts another launcher when
//! they have changed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Folders of the system that every command may read and execute.
pub const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// Files of `/etc` that programs need: users, host names, services, libraries, time zone, types.
const FILES: &[&str] = &[
    "/etc/ca-certificates.conf",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/networks",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/tls/openssl.cnf",
    "/etc/protocols",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
];

/// The configuration of the resolver.
const RESOLVER: &str = "/etc/resolv.conf";

/// Folders of `/etc` that programs need: libraries, certificates, chosen programs, run times.
const FOLDERS: &[&str] = &[
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/ld.so.conf.d",
    "/etc/perl",
    "/etc/pki/ca-trust",
    "/etc/pki/java",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/terminfo",
];

/// Folders of `/etc` that are needed, by the beginning of their names: a version follows.
const VERSIONED: &[&str] = &["java", "python"];

/// Where a scratch directory may be, the best place first.
const SCRATCH: &[&str] = &["/tmp", "/var/tmp", "/scratch"];

/// A file of `/etc` that is larger is left out.
const COPY_BYTES_MAX: u64 = 4 << 20;

/// The content of a command's root directory. Every path is free of links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Mounted so that they can be read and executed.
    pub readable: Vec<PathBuf>,
    /// Mounted so that they can be read and written.
    pub writable: Vec<PathBuf>,
    /// Hidden from the command.
    pub protected: Vec<PathBuf>,
    /// Copied: where to, and where from.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// Links: where, and where to.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Where the scratch directory is.
    pub scratch: PathBuf,
    /// The folder of unpacked artifacts.
    pub artifacts: Option<PathBuf>,
}

/// The configured paths.
pub struct ConfiguredPaths<'a> {
    pub readable: Vec<&'a Path>,
    pub writable: Vec<&'a Path>,
    pub protected: &'a [PathBuf],
    pub artifacts: Option<&'a Path>,
    pub has_network: bool,
}

/// The identity of a file or folder at one moment, to detect that it was replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct Stamp {
    real: PathBuf,
    found: Option<(u64, u64)>,
    /// Length and time of change, of a file that is copied.
    content: Option<(u64, i64, i64)>,
}

impl Stamp {
    fn new(path: &Path, is_copied: bool) -> Self {
        let metadata = fs::metadata(path).ok();
        let content = |m: &fs::Metadata| (m.len(), m.mtime(), m.mtime_nsec());
        Stamp {
            // A copied file is copied again when its content changes, wherever it lies.
            real: if is_copied { PathBuf::new() } else { real(path) },
            found: metadata.as_ref().map(|m| (m.dev(), m.ino())),
            content: metadata.as_ref().filter(|_| is_copied).map(content),
        }
    }
}

impl ConfiguredPaths<'_> {
    /// The present identity of the mounted paths.
    pub fn mounted(&self) -> Vec<Stamp> {
        let paths = self.readable.iter().chain(&self.writable).copied();
        let paths = paths.chain(self.protected.iter().map(PathBuf::as_path)).chain(self.artifacts);
        paths.map(|path| Stamp::new(path, false)).collect()
    }

    /// The present identity of the copied files.
    pub fn copied(&self) -> Vec<Stamp> {
        self.files().map(|file| Stamp::new(file, true)).collect()
    }

    fn files(&self) -> impl Iterator<Item = &'static Path> {
        let resolver = self.has_network.then_some(RESOLVER);
        FILES.iter().copied().chain(resolver).map(Path::new)
    }

    /// The root for these paths.
    pub fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        let system = SYSTEM.iter().chain(FOLDERS).map(Path::new).map(Path::to_owned);
        for path in system.chain(versioned()) {
            layout.read(&path);
        }
        for path in &self.readable {
            layout.read(path);
        }
        for path in &self.writable {
            layout.add_link(path);
            layout.writable.extend(path.canonicalize());
        }
        for file in self.files() {
            layout.copy(file);
        }
        layout.artifacts = self.artifacts.map(real);
        layout.protected = self.protected.iter().map(|path| real(path)).collect();
        layout.prune();
        layout.place_scratch();
        layout
    }
}

impl Layout {
    fn read(&mut self, path: &Path) {
        self.add_link(path);
        self.readable.extend(path.canonicalize());
    }

    /// A path with links in it is there under its own name, too.
    fn add_link(&mut self, path: &Path) {
        if let Ok(real) = path.canonicalize()
            && real != path
        {
            self.links.push((path.to_owned(), real));
        }
    }

    /// A file that all users may read. One that belongs to the system is there anyway.
    fn copy(&mut self, path: &Path) {
        let Ok(real) = path.canonicalize() else { return };
        let Ok(metadata) = fs::metadata(&real) else { return };
        let is_open = metadata.permissions().mode() & 0o004 != 0;
        if !metadata.is_file() || !is_open || metadata.len() > COPY_BYTES_MAX {
            return;
        }
        if SYSTEM.iter().any(|folder| real.starts_with(folder)) {
            self.links.push((path.to_owned(), real));
        } else {
            self.copies.push((path.to_owned(), real));
        }
    }

    /// Leaves out paths in a folder that is mounted the same way, so that a command has few mounts.
    fn prune(&mut self) {
        for list in [&mut self.readable, &mut self.writable, &mut self.protected] {
            list.sort();
            list.dedup();
        }
        self.links.sort();
        self.links.dedup();
        let writable = self.writable.clone();
        self.readable.retain(|path| !writable.contains(path));
        let readable = self.readable.clone();
        // The nearest folder above a path decides whether the path is visible without a mount.
        let is_nearest = |path: &Path, of: &[PathBuf], other: &[PathBuf]| {
            let mut above = path.ancestors().skip(1);
            let nearest = above
                .find(|above| [of, other].iter().any(|list| list.iter().any(|path| path == above)));
            nearest.is_some_and(|nearest| of.iter().any(|path| path == nearest))
        };
        self.readable.retain(|path| !is_nearest(path, &readable, &writable));
        self.writable.retain(|path| !is_nearest(path, &writable, &readable));
    }

    /// Finds a place for the scratch directory where nothing else is wanted, and leads the other
    /// usual places there.
    fn place_scratch(&mut self) {
        let used = self.readable.iter().chain(&self.writable);
        let used: Vec<PathBuf> = used.chain(self.links.iter().map(|(at, _)| at)).cloned().collect();
        let is_free = |place: &&&str| !used.iter().any(|path| path.starts_with(place));
        let mut free = SCRATCH.iter().filter(is_free).map(PathBuf::from);
        self.scratch = free.next().unwrap_or_else(|| PathBuf::from("/scratch"));
        let other = free.filter(|place| place != Path::new("/scratch"));
        let shared_memory = PathBuf::from("/dev/shm");
        for place in other.chain([shared_memory]) {
            self.links.push((place, self.scratch.clone()));
        }
    }
}

fn versioned() -> Vec<PathBuf> {
    let entries = fs::read_dir("/etc").into_iter().flatten().flatten();
    let names = entries.filter(|entry| {
        let name = entry.file_name();
        VERSIONED.iter().any(|begin| name.to_str().is_some_and(|name| name.starts_with(begin)))
    });
    let folders = names.map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.collect()
}

/// The path without links, or as it is where it leads nowhere.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[&str]) -> Vec<PathBuf> {
        list.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_path_is_mounted_where_the_folder_above_it_is_not_enough() {
        for (readable, writable, left_readable, left_writable) in [
            (&["/usr", "/usr/bin"][..], &[][..], &["/usr"][..], &[][..]),
            (&["/usr"], &["/usr/x"], &["/usr"], &["/usr/x"]),
            (&["/w/bin", "/w/bin/deep"], &["/w", "/w/sub"], &["/w/bin"], &["/w"]),
            (&["/w"], &["/w"], &[], &["/w"]),
            (&["/a", "/ab"], &[], &["/a", "/ab"], &[]),
        ] {
            let (readable, writable) = (paths(readable), paths(writable));
            let mut layout = Layout { readable, writable, ..Layout::default() };
            layout.prune();
            assert_eq!(layout.readable, paths(left_readable));
            assert_eq!(layout.writable, paths(left_writable));
        }
    }

    #[test]
    fn the_scratch_directory_is_where_nothing_else_is() {
        for (used, scratch, links) in [
            (&["/opt"][..], "/tmp", &["/var/tmp", "/dev/shm"][..]),
            (&["/tmp/jobs"], "/var/tmp", &["/dev/shm"]),
            (&["/tmp/jobs", "/var/tmp"], "/scratch", &["/dev/shm"]),
        ] {
            let mut layout = Layout { readable: paths(used), ..Layout::default() };
            layout.place_scratch();
            assert_eq!(layout.scratch, Path::new(scratch));
            let at: Vec<_> = layout.links.iter().map(|(at, _)| at.clone()).collect();
            assert_eq!(at, paths(links));
            assert!(layout.links.iter().all(|(_, to)| to == Path::new(scratch)));
        }
    }

    #[test]
    fn what_is_replaced_under_its_name_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("file"), dir.path().join("other"));
        fs::write(&file, "1").unwrap();
        fs::write(&other, "2").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let stamps = || [&file, &link].map(|path| Stamp::new(path, false));
        let first = stamps();
        assert_eq!(first, stamps());
        fs::rename(&other, &file).unwrap();
        let second = stamps();
        assert!(first[0] != second[0] && first[1] != second[1], "{second:?}");
        let copied = Stamp::new(&file, true);
        fs::write(&file, "longer").unwrap();
        assert_eq!(second, stamps());
        assert!(copied != Stamp::new(&file, true));
    }
}
