//! Whether a folder still has the files that were unpacked into it.
//!
//! The [digest](digest) of a tree covers the content of its files and takes as long as reading them.
//! Its [state](state) covers what the file system knows of them and is read before every run: a file
//! that is written, replaced or made executable gets another time of change, which no program sets.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use domain::artifact::ArtifactDigest;
use sha2::{Digest, Sha256};

/// The digest of the names, contents and permissions of all files and folders. Blocks.
pub(super) fn digest(folder: &Path) -> io::Result<ArtifactDigest> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    walk(folder, folder, &mut |path, metadata| {
        add_entry(&mut hasher, path.as_os_str().as_encoded_bytes(), metadata);
        if metadata.is_file() {
            hasher.update(metadata.size().to_le_bytes());
            let mut file = File::open(folder.join(path))?;
            let mut read = 0;
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    more => {
                        hasher.update(&buffer[..more]);
                        read += more as u64;
                    }
                }
            }
            if read != metadata.size() {
                return Err(io::Error::other("a file changed while it was read"));
            }
        }
        Ok(())
    })?;
    Ok(ArtifactDigest(hasher.finalize().into()))
}

/// What the file system knows of all files and folders: the same as long as none of them was changed.
/// Blocks.
pub(super) fn state(folder: &Path) -> io::Result<ArtifactDigest> {
    let mut hasher = Sha256::new();
    walk(folder, folder, &mut |path, metadata| {
        add_entry(&mut hasher, path.as_os_str().as_encoded_bytes(), metadata);
        if !metadata.is_dir() {
            let (inode, size) = (metadata.ino(), metadata.size());
            let changed = [metadata.ctime(), metadata.ctime_nsec()];
            let written = [metadata.mtime(), metadata.mtime_nsec()];
            for number in [inode, size] {
                hasher.update(number.to_le_bytes());
            }
            for number in changed.into_iter().chain(written) {
                hasher.update(number.to_le_bytes());
            }
        }
        Ok(())
    })?;
    Ok(ArtifactDigest(hasher.finalize().into()))
}

fn add_entry(hasher: &mut Sha256, path: &[u8], metadata: &fs::Metadata) {
    hasher.update((path.len() as u64).to_le_bytes());
    hasher.update(path);
    hasher.update(metadata.mode().to_le_bytes());
}

/// Visits everything below a folder, by name, with its path in the folder. Links are not followed.
fn walk(
    root: &Path,
    folder: &Path,
    visit: &mut dyn FnMut(&Path, &fs::Metadata) -> io::Result<()>,
) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, metadata) = (entry.path(), entry.metadata()?);
        visit(path.strip_prefix(root).map_err(io::Error::other)?, &metadata)?;
        if metadata.is_dir() {
            walk(root, &path, visit)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn every_change_of_a_tree_changes_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("a/b"), "one").unwrap();
        let before = (digest(root).unwrap(), state(root).unwrap());
        assert_eq!((digest(root).unwrap(), state(root).unwrap()), before);
        /// A description, and the change.
        type Change = (&'static str, fn(&Path));
        let changes: [Change; 6] = [
            ("content", |root| fs::write(root.join("a/b"), "two").unwrap()),
            ("length", |root| fs::write(root.join("a/b"), "longer").unwrap()),
            ("new file", |root| fs::write(root.join("a/c"), "").unwrap()),
            ("new folder", |root| fs::create_dir(root.join("d")).unwrap()),
            ("name", |root| fs::rename(root.join("a/b"), root.join("a/e")).unwrap()),
            ("mode", |root| {
                let mode = fs::Permissions::from_mode(0o755);
                fs::set_permissions(root.join("a/e"), mode).unwrap();
            }),
        ];
        let mut last = before;
        for (change, make) in changes {
            make(root);
            let now = (digest(root).unwrap(), state(root).unwrap());
            assert_ne!(now.0, last.0, "{change}");
            assert_ne!(now.1, last.1, "{change}");
            last = now;
        }
        // A file that is written with the same content has another state only.
        fs::write(root.join("a/c"), "").unwrap();
        assert_eq!(digest(root).unwrap(), last.0);
    }
}
