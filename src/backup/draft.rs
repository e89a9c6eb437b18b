//! A file that exists complete or not at all, and the files of a folder of backups.
//!
//! A draft has a name of its own and is locked by its writer. A process that is killed leaves the
//! draft without the lock, and the next one that writes into the folder deletes it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::manifest::hex;

const PREFIX: &str = "punctual-";
const SUFFIX: &str = ".tar.zst";
const DRAFT: &str = ".part";

/// The name of a backup that is made now. Names sort as their times do.
pub fn file_name(now: Timestamp) -> String {
    let now = now.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    let millis = now.subsec_nanosecond() / 1_000_000;
    format!("{PREFIX}{}.{millis:03}Z{SUFFIX}", now.strftime("%Y%m%dT%H%M%S"))
}

/// Whether a file has the name of a backup.
pub fn is_backup(name: &str) -> bool {
    let stem = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
    stem.is_some_and(|stem| stem.len() == 20 && stem.ends_with('Z') && stem.as_bytes()[8] == b'T')
}

/// A file that is being written.
pub struct Draft {
    file: File,
    path: PathBuf,
    name: String,
    folder: PathBuf,
    digest: Sha256,
    bytes: u64,
    is_done: bool,
}

/// A file that was written.
pub struct WrittenFile {
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: String,
}

impl Draft {
    /// Begins a file of this name in a folder, which is made if it is not there.
    pub fn begin(folder: &Path, name: &str) -> io::Result<Self> {
        let about = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
        };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(about)?;
        clear_drafts(folder).map_err(about)?;
        let path = folder.join(format!(".{name}{DRAFT}"));
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(about)?;
        // The draft of a killed process has no lock.
        file.try_lock().map_err(|error| about(error.into()))?;
        file.set_len(0).map_err(about)?;
        Ok(Draft {
            file,
            path,
            name: name.to_owned(),
            folder: folder.to_owned(),
            digest: Sha256::new(),
            bytes: 0,
            is_done: false,
        })
    }

    /// Where it is until it has its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How much was written.
    pub fn written(&self) -> u64 {
        self.bytes
    }

    /// Gives the file its name, when all of it is on disk. A file that has the name stays.
    pub fn finish(mut self) -> io::Result<WrittenFile> {
        self.file.sync_all()?;
        let name = self.folder.join(&self.name);
        fs::hard_link(&self.path, &name).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Err(error),
            // Some file systems know no links.
            _ => fs::rename(&self.path, &name),
        })?;
        let _ = fs::remove_file(&self.path);
        self.is_done = true;
        File::open(&self.folder).and_then(|folder| folder.sync_all())?;
        let sha256 = hex(&std::mem::take(&mut self.digest).finalize());
        Ok(WrittenFile { name: self.name.clone(), bytes: self.bytes, sha256 })
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.digest.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Deletes what processes left behind that were killed.
fn clear_drafts(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix('.'));
        if name.and_then(|name| name.strip_suffix(DRAFT)).is_some_and(is_backup)
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// The names of the backups of a folder, oldest first.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        names.extend(name.to_str().filter(|name| is_backup(name)).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// The newest backup of a folder.
pub fn newest(folder: &Path) -> io::Result<Option<PathBuf>> {
    Ok(names(folder)?.pop().map(|name| folder.join(name)))
}

/// Deletes all but the newest so many; answers which.
pub fn keep_newest(folder: &Path, keep: u32) -> io::Result<Vec<String>> {
    let mut names = names(folder)?;
    names.truncate(names.len().saturating_sub(keep as usize));
    for name in &names {
        fs::remove_file(folder.join(name))?;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_when_and_sort_as_time_does() {
        let name = |text: &str| file_name(text.parse().unwrap());
        assert_eq!(name("2026-11-15T08:43:15.0074Z"), "punctual-20261115T084315.007Z.tar.zst");
        assert!(name("2026-11-15T08:43:15.9Z") < name("2026-11-15T08:43:16Z"));
        assert!(is_backup(&name("2026-11-15T08:43:15Z")));
        for other in [
            "punctual-.tar.zst",
            "punctual-notes.tar.zst",
            "x.tar.zst",
            ".punctual-20261115T084315.007Z.tar.zst.part",
        ] {
            assert!(!is_backup(other), "{other}");
        }
    }

    #[test]
    fn a_draft_becomes_a_file_at_its_end_or_never() {
        let folder = tempfile::tempdir().unwrap();
        let list = || -> Vec<String> {
            let entries = fs::read_dir(folder.path()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let name = file_name("2026-11-15T08:43:15Z".parse().unwrap());
        let mut draft = Draft::begin(folder.path(), &name).unwrap();
        draft.write_all(b"half").unwrap();
        assert_eq!(list(), [format!(".{name}.part")]);
        // Another one in the same folder leaves it alone: it is locked.
        let other = file_name("2026-11-15T08:43:16Z".parse().unwrap());
        drop(Draft::begin(folder.path(), &other).unwrap());
        assert_eq!(list(), [format!(".{name}.part")]);
        draft.write_all(b" and half").unwrap();
        let written = draft.finish().unwrap();
        assert_eq!((written.bytes, list()), (13, vec![name.clone()]));
        // The draft of a killed process is not locked.
        fs::write(folder.path().join(format!(".{other}.part")), "half").unwrap();
        drop(Draft::begin(folder.path(), &other).unwrap());
        assert_eq!(list(), std::slice::from_ref(&name));
        // A file that is there stays.
        let mut again = Draft::begin(folder.path(), &name).unwrap();
        again.write_all(b"other").unwrap();
        assert_eq!(again.finish().err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(folder.path().join(&name)).unwrap(), b"half and half");
        assert_eq!(list(), [name]);
    }

    #[test]
    fn only_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        for second in 10..15 {
            let time = format!("2026-11-15T08:43:{second}Z").parse().unwrap();
            fs::write(folder.path().join(file_name(time)), "x").unwrap();
        }
        fs::write(folder.path().join("punctual-notes.tar.zst"), "mine").unwrap();
        assert_eq!(keep_newest(folder.path(), 9).unwrap(), [] as [String; 0]);
        assert_eq!(keep_newest(folder.path(), 2).unwrap().len(), 3);
        let newest = newest(folder.path()).unwrap().unwrap();
        assert!(newest.ends_with("punctual-20261115T084314.000Z.tar.zst"));
        assert!(folder.path().join("punctual-notes.tar.zst").exists());
    }
}
