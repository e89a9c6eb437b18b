//! Packs a folder so that the archive depends on nothing but its content.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cli_error::CliError;
use crate::exit::Failure;

/// How hard to compress. Another level would make another archive of the same content.
const LEVEL: i32 = 9;

/// The folder of Python packages in an artifact.
pub const VENDOR: &str = "vendor";

/// Names that are left out: caches, and what belongs to tools.
const LEFT_OUT: &[&str] = &["__pycache__", ".git", ".DS_Store"];

/// The archive of a folder or a file, and of the Python packages that belong to it.
pub fn archive(path: &Path, vendored: Option<&Path>) -> Result<File, Failure> {
    let cannot =
        |error: io::Error| Failure::failed(format!("{} cannot be packed: {error}", path.display()));
    let metadata = fs::metadata(path).map_err(cannot)?;
    let is_archive = path.to_string_lossy().ends_with(".tar.zst");
    if metadata.is_file() && is_archive {
        if vendored.is_some() {
            let error = CliError::new("--requirements cannot be added to an archive");
            return Err(error.hint("push the folder instead").into());
        }
        return File::open(path).map_err(cannot);
    }
    let mut entries = Vec::new();
    if metadata.is_file() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        entries.push((name, path.to_owned()));
    } else {
        collect(path, "", &mut entries)?;
    }
    if let Some(vendored) = vendored {
        if entries.iter().any(|(name, _)| name == VENDOR || name.starts_with("vendor/")) {
            let error = CliError::new(format!("{} has a folder {VENDOR}", path.display()));
            return Err(error
                .hint("--requirements puts packages there; give it another name")
                .into());
        }
        collect(vendored, "vendor/", &mut entries)?;
    }
    entries.sort();
    write(&entries).map_err(cannot)
}

/// The files below a folder, by their names in the archive.
fn collect(
    folder: &Path,
    prefix: &str,
    entries: &mut Vec<(String, PathBuf)>,
) -> Result<(), Failure> {
    let cannot =
        |error: io::Error| Failure::failed(format!("{} cannot be read: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let path = entry.path();
        let name = entry.file_name().into_string().map_err(|_| {
            CliError::new(format!("{} has a name that is not UTF-8", path.display()))
        })?;
        if LEFT_OUT.contains(&name.as_str()) || name.ends_with(".pyc") {
            continue;
        }
        let kind = entry.file_type().map_err(cannot)?;
        let name = format!("{prefix}{name}");
        if kind.is_dir() {
            collect(&path, &format!("{name}/"), entries)?;
        } else if kind.is_file() {
            entries.push((name, path));
        } else {
            let text = format!("{} is a link or a special file", path.display());
            let hint = "an artifact has files and folders only; copy what the link leads to";
            return Err(CliError::new(text).hint(hint).into());
        }
    }
    Ok(())
}

fn write(entries: &[(String, PathBuf)]) -> io::Result<File> {
    let mut encoder = zstd::Encoder::new(tempfile::tempfile()?, LEVEL)?;
    encoder.include_checksum(true)?;
    let mut builder = tar::Builder::new(encoder);
    for (name, path) in entries {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let is_executable = metadata.permissions().mode() & 0o111 != 0;
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(metadata.len());
        header.set_mode(if is_executable { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        builder.append_data(&mut header, name, io::Read::take(file, metadata.len()))?;
    }
    builder.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};
    use std::os::unix::fs::symlink;

    use super::*;

    fn bytes(mut file: File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn folder(order: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in order {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("content of {name}")).unwrap();
        }
        fs::set_permissions(dir.path().join("run.sh"), PermissionsExt::from_mode(0o700)).unwrap();
        dir
    }

    #[test]
    fn the_same_content_is_the_same_archive() {
        let long = format!("{}/{}/x.py", "a".repeat(120), "b".repeat(120));
        let names = ["main.py", "run.sh", "lib/a.py", "lib/b.py", &long];
        let reversed: Vec<&str> = names.iter().rev().copied().collect();
        let (one, other) = (folder(&names), folder(&reversed));
        fs::create_dir(other.path().join("__pycache__")).unwrap();
        fs::write(other.path().join("__pycache__/main.pyc"), "x").unwrap();
        fs::set_permissions(other.path().join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
        let first = bytes(archive(one.path(), None).unwrap());
        assert!(first == bytes(archive(other.path(), None).unwrap()));
        let found = agent::artifact::archive::check(&first[..], first.len() as u64).unwrap();
        // Five files, and three folders above them.
        assert_eq!(found.entries, 8, "{found:?}");
        fs::write(other.path().join("main.py"), "other").unwrap();
        assert!(first != bytes(archive(other.path(), None).unwrap()));
    }

    #[test]
    fn links_are_refused_and_archives_stay_what_they_are() {
        let dir = folder(&["main.py", "run.sh"]);
        let file = bytes(archive(&dir.path().join("run.sh"), None).unwrap());
        let found = agent::artifact::archive::check(&file[..], file.len() as u64).unwrap();
        assert_eq!((found.entries, found.bytes), (1, 17));
        let packed = dir.path().join("it.tar.zst");
        fs::write(&packed, &file).unwrap();
        assert!(bytes(archive(&packed, None).unwrap()) == file);
        fs::remove_file(&packed).unwrap();
        symlink("/etc/passwd", dir.path().join("link")).unwrap();
        assert!(archive(dir.path(), None).is_err());
    }

    #[test]
    fn packages_go_into_a_folder_of_their_own() {
        let (code, packages) = (folder(&["main.py", "run.sh"]), folder(&["six.py", "run.sh"]));
        let packed = bytes(archive(code.path(), Some(packages.path())).unwrap());
        let found = agent::artifact::archive::check(&packed[..], packed.len() as u64).unwrap();
        assert_eq!(found.entries, 5);
        fs::create_dir(code.path().join("vendor")).unwrap();
        fs::write(code.path().join("vendor/x"), "").unwrap();
        assert!(archive(code.path(), Some(packages.path())).is_err());
    }
}
