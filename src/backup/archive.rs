//! Writes the archive.
//!
//! The databases are copied first, into the data folder, each as it is at one moment; then come the
//! outputs, so that the archive has the outputs of all runs in the copy. An output that grows
//! meanwhile is cut where it was read, which its form allows.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use agent::backup::BackupParts;
use blobs::{BlobError, BlobReader, BlobStore};
use bytes::Bytes;
use domain::artifact::ArchiveFacts;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use store::sqlite;
use tokio::runtime::Handle;

use super::manifest::{
    ArtifactEntry, FORMAT, FileEntry, Manifest, NAME, fingerprint, hex, object_path,
};

/// Where the databases are copied to, inside of the data folder.
const COPIES: &str = "backup.tmp";

/// Where a backup is written that goes to object storage.
const OUTGOING: &str = "backup-outgoing.tmp";

pub const STORE: &str = "punctual.db";

/// The databases of a data folder: the store, and that of SQL jobs.
pub const DATABASES: [&str; 2] = [STORE, "main.db"];

/// The folder of the outputs of runs.
pub const OUTPUTS: &str = "outputs";

/// How hard to compress: outputs are compressed already, and a backup should not take the
/// processors from jobs.
const LEVEL: i32 = 3;

/// The data that backups are made of.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The data folder.
    pub data: PathBuf,
    /// The storage of artifacts.
    pub artifacts: BlobStore,
}

/// The folder of backups on their way to object storage.
pub fn outgoing(contents: &Contents) -> PathBuf {
    contents.data.join(OUTGOING)
}

/// Deletes what a process left behind that was killed.
pub fn clear(contents: &Contents) {
    clear_folder(&contents.data.join(COPIES));
    clear_folder(&outgoing(contents));
}

fn clear_folder(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "cannot delete temporary files of a backup");
    }
}

/// Writes an archive, all of it or an error. Blocks; artifacts are read on the runtime of the caller.
pub fn write(
    contents: &Contents,
    parts: BackupParts,
    now: Timestamp,
    out: &mut impl Write,
    wanted: &dyn Fn() -> bool,
) -> io::Result<Manifest> {
    let copies = Copies::new(contents)?;
    let copied = copies.databases(wanted)?;
    let artifacts = artifacts_of(&copies.folder.join(STORE))?;
    if parts.artifacts {
        // Before the first byte: a download that has begun can only break off.
        check_objects(contents, &artifacts, wanted)?;
    }
    let mut encoder = zstd::Encoder::new(out, LEVEL)?;
    encoder.include_checksum(true)?;
    let mut archive = Archive { tar: tar::Builder::new(encoder), files: Vec::new(), now };
    for name in copied {
        let file = File::open(copies.folder.join(name))?;
        let bytes = file.metadata()?.len();
        archive.add(name, bytes, WhileWanted { from: file, wanted })?;
        // Free the space at once: there may be more than one copy.
        fs::remove_file(copies.folder.join(name))?;
    }
    if parts.outputs {
        archive.add_outputs(&contents.data, Path::new(OUTPUTS), wanted)?;
    }
    if parts.artifacts {
        archive.add_artifacts(contents, &artifacts, wanted)?;
    }
    let key = fs::read_to_string(contents.data.join("master.key")).ok();
    let manifest = Manifest {
        format: FORMAT,
        made_at: now,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        schema_version: sqlite::newest_schema_version(),
        master_key: key.as_deref().map(fingerprint),
        artifacts,
        files: std::mem::take(&mut archive.files),
    };
    let text = serde_json::to_vec_pretty(&manifest)?;
    archive.add(NAME, text.len() as u64, text.as_slice())?;
    archive.tar.into_inner()?.finish()?;
    Ok(manifest)
}

fn given_up() -> io::Error {
    io::Error::other("backup cancelled: its reader is gone")
}

/// Copies of the databases, gone when they are not needed any more.
struct Copies<'a> {
    contents: &'a Contents,
    folder: PathBuf,
}

impl<'a> Copies<'a> {
    fn new(contents: &'a Contents) -> io::Result<Self> {
        let folder = contents.data.join(COPIES);
        clear_folder(&folder);
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Copies { contents, folder })
    }

    fn databases(&self, wanted: &dyn Fn() -> bool) -> io::Result<Vec<&'static str>> {
        let mut copied = Vec::new();
        for name in DATABASES {
            let from = self.contents.data.join(name);
            if !from.exists() {
                continue;
            }
            let whole = sqlite::copy(&from, &self.folder.join(name), |_| wanted());
            let whole = whole.map_err(|error| io::Error::other(format!("{name}: {error}")))?;
            if !whole {
                return Err(given_up());
            }
            copied.push(name);
        }
        Ok(copied)
    }
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        clear_folder(&self.folder);
    }
}

/// Something that is read until the caller is gone.
struct WhileWanted<'a, R> {
    from: R,
    wanted: &'a dyn Fn() -> bool,
}

impl<R: Read> Read for WhileWanted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.wanted)() { self.from.read(buffer) } else { Err(given_up()) }
    }
}

/// An object of the storage of artifacts, read on a runtime.
struct ObjectReader {
    object: BlobReader,
    runtime: Handle,
    rest: Bytes,
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let next = self.runtime.block_on(self.object.next()).map_err(io::Error::other)?;
            let Some(next) = next else { return Ok(0) };
            self.rest = next;
        }
        let read = buffer.len().min(self.rest.len());
        buffer[..read].copy_from_slice(&self.rest.split_to(read));
        Ok(read)
    }
}

/// The artifacts that the copy of a store needs, by name.
fn artifacts_of(copy: &Path) -> io::Result<Vec<ArtifactEntry>> {
    let found = sqlite::artifacts_in(copy).map_err(io::Error::other)?;
    let entry = |(name, version, archive): (String, u32, ArchiveFacts)| ArtifactEntry {
        name: format!("{name}@{version}"),
        sha256: archive.digest.to_string(),
        bytes: archive.bytes,
    };
    Ok(found.into_iter().map(entry).collect())
}

fn not_backed_up(name: &str, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("artifact {name} cannot be backed up: {error}"))
}

/// Whether object storage has all artifacts, with their sizes. Digests are compared later.
fn check_objects(
    contents: &Contents,
    artifacts: &[ArtifactEntry],
    wanted: &dyn Fn() -> bool,
) -> io::Result<()> {
    let runtime = Handle::current();
    for ArtifactEntry { name, sha256, bytes } in artifacts {
        if !wanted() {
            return Err(given_up());
        }
        let digest = sha256.parse().map_err(|error| not_backed_up(name, &error))?;
        let problem = match runtime.block_on(contents.artifacts.size(digest)) {
            Ok(Some(found)) if found == *bytes => continue,
            Ok(Some(_)) => BlobError::Damaged(digest),
            Ok(None) => BlobError::Absent(digest),
            Err(error) => error,
        };
        return Err(not_backed_up(name, &problem));
    }
    Ok(())
}

/// An archive that is being written, and what is in it so far.
struct Archive<W: Write> {
    tar: tar::Builder<W>,
    files: Vec<FileEntry>,
    now: Timestamp,
}

impl<W: Write> Archive<W> {
    fn add(&mut self, path: &str, bytes: u64, contents: impl Read) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(self.now.as_second()).unwrap_or(0));
        let mut hashed = Hashed { inner: contents, digest: Sha256::new(), bytes: 0 };
        self.tar.append_data(&mut header, path, &mut hashed)?;
        if hashed.bytes != bytes {
            return Err(io::Error::other(format!("{path} changed while it was read")));
        }
        let sha256 = hex(&hashed.digest.finalize());
        self.files.push(FileEntry { path: path.to_owned(), bytes, sha256 });
        Ok(())
    }

    /// Adds the archives of artifacts, each once. One that is missing or damaged fails the backup: it
    /// would not be what it promises.
    fn add_artifacts(
        &mut self,
        contents: &Contents,
        artifacts: &[ArtifactEntry],
        wanted: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let runtime = Handle::current();
        let mut added = BTreeSet::new();
        for ArtifactEntry { name, sha256, .. } in artifacts {
            if !added.insert(sha256) {
                continue;
            }
            let failed = |error: &dyn std::fmt::Display| not_backed_up(name, error);
            let digest = sha256.parse().map_err(|error| failed(&error))?;
            let object = runtime.block_on(contents.artifacts.open(digest));
            let object = object.map_err(|error| failed(&error))?;
            let bytes = object.bytes;
            let from = ObjectReader { object, runtime: runtime.clone(), rest: Bytes::new() };
            let added = self.add(&object_path(sha256), bytes, WhileWanted { from, wanted });
            added.map_err(|error| failed(&error))?;
            if self.files.last().is_none_or(|file| file.sha256 != *sha256) {
                return Err(failed(&BlobError::Damaged(digest)));
            }
        }
        Ok(())
    }

    /// Adds a folder of outputs and everything below it, in order. Files that are deleted meanwhile
    /// are left out.
    fn add_outputs(
        &mut self,
        data: &Path,
        folder: &Path,
        wanted: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let Some(entries) = there(fs::read_dir(data.join(folder)))? else { return Ok(()) };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            names.push((entry.file_name(), entry.file_type()?));
        }
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (name, kind) in names {
            if !wanted() {
                return Err(given_up());
            }
            let path = folder.join(&name);
            if kind.is_dir() {
                self.add_outputs(data, &path, wanted)?;
            } else if kind.is_file()
                && let Some(text) = path.to_str()
                && let Some(bytes) = there(fs::read(data.join(&path)))?
            {
                self.add(text, bytes.len() as u64, bytes.as_slice())?;
            }
        }
        Ok(())
    }
}

/// Nothing is an answer, too.
fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Computes the SHA-256 of what passes through it.
pub struct Hashed<R> {
    /// Where it comes from.
    pub inner: R,
    /// Of what has passed.
    pub digest: Sha256,
    /// How much has passed.
    pub bytes: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.digest.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}
