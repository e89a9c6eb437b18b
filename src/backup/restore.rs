//! Puts a backup into an empty data folder, or only looks whether it could.
//!
//! ```text
//!   archive ──▶ restore.tmp/…  ──▶ every file as the manifest says? ──▶ punctual.db revived
//!                                                     │ no                        │
//!                                             the file is named           files move to their places,
//!                                             and nothing is left         punctual.db last
//! ```
//!
//! As long as `restore.tmp` is there, no server starts in the folder: a restore that was killed is
//! made again from its beginning.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path};

use domain::artifact::ArtifactDigest;
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};
use store::StoreError;
use store::sqlite::{self, Restore, Revived};

use super::archive::{DATABASES, Hashed, OUTPUTS, STORE};
use super::manifest::{ARTIFACTS, FORMAT, FileEntry, Manifest, NAME, hex, object_path};
use crate::cli_error::CliError;
use crate::data::STORE_ID;
use crate::exit::{Exit, Failure};

/// The folder that exists while a restore has not ended.
pub const MARK: &str = "restore.tmp";

/// The largest manifest, enough for a million files.
const MANIFEST_BYTES_MAX: u64 = 256 << 20;

/// A backup that matches its manifest.
pub struct CheckedBackup {
    pub manifest: Manifest,
    /// Its size, unpacked.
    pub bytes: u64,
}

/// Whether a backup is whole and this release can use it. `tell` is called with the number of bytes
/// read.
pub fn check(archive: &Path, tell: &dyn Fn(u64)) -> Result<CheckedBackup, Failure> {
    unpack(archive, None, tell)
}

/// Puts a backup into a data folder that is held by this process. Files of an earlier try may be
/// there, and keys; nothing else. The audit records the time and the user.
pub fn restore(
    archive: &Path,
    data: &Path,
    (now, by): (Timestamp, &str),
    tell: &dyn Fn(u64),
) -> Result<(CheckedBackup, Revived), Failure> {
    let draft = data.join(MARK);
    begin(data, &draft)?;
    let restored = unpack(archive, Some(&draft), tell).and_then(|checked| {
        let name = archive.file_name().unwrap_or_default().to_string_lossy();
        let Manifest { made_at, version, .. } = &checked.manifest;
        let details = json!({ "backup": name, "made_at": made_at, "version": version }).to_string();
        let restore = Restore { at: now, by, details: &details };
        let revived = sqlite::revive(&draft.join(STORE), restore).map_err(|error| match error {
            StoreError::TooNew { found, known } => too_new(&checked.manifest, found, known),
            StoreError::Refused { problem, advice } => {
                Failure::Ended(Exit::Conflict, CliError::new(problem).hint(advice.as_str()))
            }
            error => damaged(archive, STORE, &error.to_string()),
        })?;
        Ok((checked, revived))
    });
    if restored.is_err() {
        // Nothing has left the draft yet: the folder is as empty as before.
        fs::remove_dir_all(&draft)?;
        return restored;
    }
    place(&draft, data)?;
    restored
}

/// Makes the draft, after what another try left.
fn begin(data: &Path, draft: &Path) -> Result<(), Failure> {
    if draft.exists() {
        for name in DATABASES {
            for end in ["", "-wal", "-shm", ".lock"] {
                remove(&data.join(format!("{name}{end}")))?;
            }
        }
        for folder in [OUTPUTS, ARTIFACTS, MARK] {
            match fs::remove_dir_all(data.join(folder)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
    }
    let known = ["punctual.lock", "master.key", "admin.key", STORE_ID];
    for entry in fs::read_dir(data)? {
        let name = entry?.file_name();
        if !known.iter().any(|known| name == *known) {
            let text = format!("{} is not empty: there is {}", data.display(), name.display());
            let hint =
                "restore into a new folder with --data DIR; nothing that exists is overwritten";
            return Err(Failure::Ended(Exit::Conflict, CliError::new(text).hint(hint)));
        }
    }
    DirBuilder::new().mode(0o700).create(draft)?;
    Ok(File::open(data).and_then(|folder| folder.sync_all())?)
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        answer => answer,
    }
}

/// Moves what was unpacked to its place.
fn place(draft: &Path, data: &Path) -> io::Result<()> {
    let rest = DATABASES.iter().filter(|name| **name != STORE);
    for name in [OUTPUTS, ARTIFACTS].iter().chain(rest).chain([&STORE]) {
        match fs::rename(draft.join(name), data.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            answer => answer?,
        }
    }
    File::open(data)?.sync_all()?;
    fs::remove_dir_all(draft)?;
    File::open(data)?.sync_all()
}

/// Reads an archive to its end, writes its files into a folder if there is one, and compares all
/// of it with the manifest.
fn unpack(
    archive: &Path,
    into: Option<&Path>,
    tell: &dyn Fn(u64),
) -> Result<CheckedBackup, Failure> {
    let cannot =
        |error: io::Error| Failure::failed(format!("cannot read {}: {error}", archive.display()));
    let file = ReportingReader { file: File::open(archive).map_err(cannot)?, read: 0, tell };
    let mut found: BTreeMap<String, FileEntry> = BTreeMap::new();
    let mut manifest: Option<Manifest> = None;
    let mut place = "its beginning".to_owned();
    let decoder = zstd::Decoder::new(BufReader::new(file)).map_err(cannot)?;
    let mut tar = tar::Archive::new(decoder);
    for entry in tar.entries().map_err(cannot)? {
        let broken = |error: io::Error| damaged(archive, &place, &error.to_string());
        let entry = entry.map_err(broken)?;
        let path = entry.path().map_err(broken)?.to_str().unwrap_or_default().to_owned();
        let broken = |error: io::Error| damaged(archive, &path, &error.to_string());
        if path == NAME {
            let mut text = Vec::new();
            entry.take(MANIFEST_BYTES_MAX).read_to_end(&mut text).map_err(broken)?;
            manifest = Some(read_manifest(archive, &text)?);
        } else {
            if !is_ours(&path) || !entry.header().entry_type().is_file() {
                return Err(damaged(archive, &path, "no backup has such a file"));
            }
            let mut hashed = Hashed { inner: entry, digest: Sha256::new(), bytes: 0 };
            match into {
                Some(folder) => {
                    let to = folder.join(&path);
                    if let Some(parent) = to.parent() {
                        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
                    }
                    let mut file =
                        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to)?;
                    copy(&mut hashed, &mut file, &broken)?;
                    file.sync_all()?;
                }
                None => copy(&mut hashed, &mut io::sink(), &broken)?,
            }
            let sha256 = hex(&hashed.digest.finalize());
            if is_artifact(&path) && path != object_path(&sha256) {
                return Err(damaged(archive, &path, "the artifact has another digest"));
            }
            let entry = FileEntry { path: path.clone(), bytes: hashed.bytes, sha256 };
            found.insert(path.clone(), entry);
        }
        place = format!("after {path}");
    }
    // The checksum of the archive stands at its very end, after the padding that tar ignores.
    io::copy(&mut tar.into_inner(), &mut io::sink())
        .map_err(|error| damaged(archive, &place, &error.to_string()))?;
    let Some(manifest) = manifest else {
        return Err(damaged(archive, NAME, "it is missing, so the archive was cut off"));
    };
    let bytes = found.values().map(|file| file.bytes).sum();
    compare(archive, &manifest, found)?;
    Ok(CheckedBackup { manifest, bytes })
}

/// Copies; distinguishes errors of the archive from errors of the disk.
fn copy(
    from: &mut impl Read,
    to: &mut impl io::Write,
    broken: &dyn Fn(io::Error) -> Failure,
) -> Result<(), Failure> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => to.write_all(&buffer[..read])?,
            Err(error) => return Err(broken(error)),
        }
    }
}

/// Whether a backup may hold a file of this path. Nothing leads out of the data folder.
fn is_ours(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    let is_plain = parts.all(|part| matches!(part, Component::Normal(_)));
    let is_output = path.strip_prefix(OUTPUTS).is_some_and(|rest| rest.starts_with('/'));
    is_plain && (DATABASES.contains(&path) || is_output || is_artifact(path))
}

/// Whether a path is that of the archive of an artifact, which is named by its digest.
fn is_artifact(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.parse::<ArtifactDigest>().is_ok_and(|digest| path == object_path(&digest.to_string()))
}

fn read_manifest(archive: &Path, text: &[u8]) -> Result<Manifest, Failure> {
    let wrong = |error: serde_json::Error| damaged(archive, NAME, &error.to_string());
    // The format is checked first: a later one may have other fields.
    #[derive(serde::Deserialize)]
    struct Form {
        format: u32,
        version: String,
    }
    let form: Form = serde_json::from_slice(text).map_err(wrong)?;
    if form.format > FORMAT {
        let text = format!(
            "{} has form {}, this release knows up to {FORMAT}",
            archive.display(),
            form.format
        );
        return Err(newer(text, &form.version));
    }
    let manifest: Manifest = serde_json::from_slice(text).map_err(wrong)?;
    let known = sqlite::newest_schema_version();
    if manifest.schema_version > known {
        return Err(too_new(&manifest, manifest.schema_version, known));
    }
    Ok(manifest)
}

fn compare(
    archive: &Path,
    manifest: &Manifest,
    mut found: BTreeMap<String, FileEntry>,
) -> Result<(), Failure> {
    for wanted in &manifest.files {
        let FileEntry { path, bytes, sha256 } = wanted;
        let Some(got) = found.remove(path) else {
            return Err(damaged(archive, path, "the manifest names it, and it is missing"));
        };
        if got != *wanted {
            let text = format!(
                "it has {} bytes and the SHA-256 {}, and the manifest says {bytes} and {sha256}",
                got.bytes, got.sha256
            );
            return Err(damaged(archive, path, &text));
        }
    }
    if let Some(path) = found.keys().next() {
        return Err(damaged(archive, path, "the manifest does not name it"));
    }
    if !manifest.files.iter().any(|file| file.path == STORE) {
        return Err(damaged(archive, STORE, "it is missing"));
    }
    Ok(())
}

fn damaged(archive: &Path, path: &str, problem: &str) -> Failure {
    let text = format!("{} is damaged: {path}: {problem}", archive.display());
    Failure::Failed(CliError::new(text).hint("nothing was restored; take another backup"))
}

fn too_new(manifest: &Manifest, found: i64, known: i64) -> Failure {
    let text = format!("the backup has schema version {found}, this release knows up to {known}");
    if manifest.version == env!("CARGO_PKG_VERSION") {
        // One release has one schema: the numbers of migrations went back before the first.
        let hint = "a development version of Punctual made it: restore it with that binary, run \
                    punctual export > jobs.yaml there and punctual apply -f jobs.yaml here";
        return Failure::Ended(Exit::Conflict, CliError::new(text).hint(hint));
    }
    newer(text, &manifest.version)
}

fn newer(text: String, version: &str) -> Failure {
    let hint = format!("restore it with Punctual {version} or later");
    Failure::Ended(Exit::Conflict, CliError::new(text).hint(hint))
}

/// A file that reports how much of it was read.
struct ReportingReader<'a> {
    file: File,
    read: u64,
    tell: &'a dyn Fn(u64),
}

impl Read for ReportingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read += read as u64;
        (self.tell)(self.read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
