//! Unpacked artifacts on this machine, by digest.
//!
//! ```text
//! FOLDER/incoming/…                  archives that arrive, folders that are filled or deleted
//! FOLDER/unpacked/DIGEST-BYTES-TREE  what is whole; nothing writes there
//! ```
//!
//! A folder gets its name when all of it is on disk, so a name is a promise, also after a crash. TREE
//! is the digest of the files that were unpacked. Before a run, a folder whose files were touched is
//! compared with it, and one that was changed is fetched again.
//! Runs that need the same artifact at the same time wait for one fetch, and share its failure.
//! When the cache is too large, folders go that were not used for the longest time, but never one
//! that a run uses.

use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::action::Assignment;
use domain::artifact::{ArtifactDigest, UNPACKED_BYTES_MAX};
use sha2::{Digest, Sha256};

use super::{ArtifactSource, FetchError, tree};
use crate::exec::Failure;
use crate::sandbox::Level;
use crate::sandbox::unpack::{Unpacked, unpack};

/// An archive that is longer is not fetched: its content would be too large anyway.
const ARCHIVE_BYTES_MAX: u64 = UNPACKED_BYTES_MAX + (64 << 20);

/// The folder of what is whole.
const UNPACKED: &str = "unpacked";

/// The folder of everything else.
const INCOMING: &str = "incoming";

/// The cache of an agent.
pub(crate) struct ArtifactCache {
    folder: PathBuf,
    bytes_max: u64,
    helper: PathBuf,
    level: Level,
    slots: Mutex<HashMap<ArtifactDigest, Arc<Slot>>>,
    /// Numbers uses and temporary names.
    count: AtomicU64,
}

/// One artifact.
#[derive(Default)]
struct Slot {
    /// Locked while it is fetched.
    state: tokio::sync::Mutex<SlotState>,
    /// Runs that use it or wait for it.
    users: AtomicUsize,
    /// The number of its last use.
    last_use: AtomicU64,
    /// Its size, when it is there.
    bytes: AtomicU64,
    /// How many fetches have failed.
    failures: AtomicU64,
}

#[derive(Default)]
struct SlotState {
    folder: Option<Unchanged>,
    failure: Option<(domain::run::ErrorCode, String)>,
}

/// A folder, and what it must contain.
#[derive(Clone)]
struct Unchanged {
    folder: PathBuf,
    /// The digest of its files.
    tree: ArtifactDigest,
    /// Its state when it was last compared with that; none after the start of the agent.
    state: Option<ArtifactDigest>,
}

impl Unchanged {
    /// Whether the folder is as it was unpacked. A link to one is none. A file that is missing is a
    /// change; any other error tells nothing about the files. Blocks.
    fn is_unchanged(&mut self) -> io::Result<bool> {
        match self.check() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            result => result,
        }
    }

    fn check(&mut self) -> io::Result<bool> {
        if !fs::symlink_metadata(&self.folder)?.is_dir() {
            return Ok(false);
        }
        let state = tree::state(&self.folder)?;
        if self.state != Some(state) {
            if tree::digest(&self.folder)? != self.tree {
                return Ok(false);
            }
            self.state = Some(state);
        }
        Ok(true)
    }
}

/// An artifact that a run uses. It stays at least until this is dropped.
pub(crate) struct CachedArtifact {
    slot: Arc<Slot>,
    /// Where it is on this machine.
    pub folder: PathBuf,
}

impl Drop for CachedArtifact {
    fn drop(&mut self) {
        self.slot.users.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Counts a user as long as it waits.
struct Waiting(Option<Arc<Slot>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(slot) = &self.0 {
            slot.users.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl ArtifactCache {
    /// The cache in a folder, with what it has from before. What was not whole is deleted.
    pub fn open(
        folder: PathBuf,
        bytes_max: u64,
        helper: PathBuf,
        level: Level,
    ) -> io::Result<Self> {
        let incoming = folder.join(INCOMING);
        fs::create_dir_all(&incoming)?;
        for entry in fs::read_dir(&incoming)?.flatten() {
            delete(&entry.path());
        }
        fs::create_dir_all(folder.join(UNPACKED))?;
        let mut found = Vec::new();
        for entry in fs::read_dir(folder.join(UNPACKED))?.flatten() {
            let name = entry.file_name();
            let used = entry.metadata().and_then(|it| it.modified()).ok();
            match name.to_str().and_then(parts) {
                Some((digest, bytes, tree)) => {
                    found.push((used, digest, bytes, tree, entry.path()))
                }
                None => delete(&entry.path()),
            }
        }
        found.sort();
        let mut slots = HashMap::new();
        let count = AtomicU64::new(0);
        for (_, digest, bytes, tree, folder) in found {
            let folder = Unchanged { folder, tree, state: None };
            let state = SlotState { folder: Some(folder), failure: None };
            let slot = Slot { state: state.into(), bytes: bytes.into(), ..Slot::default() };
            slot.last_use.store(count.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            slots.insert(digest, Arc::new(slot));
        }
        let slots = Mutex::new(slots);
        Ok(ArtifactCache { folder, bytes_max, helper, level, slots, count })
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<ArtifactDigest, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The artifact of a run: from this machine, or fetched.
    pub async fn get(
        &self,
        source: &dyn ArtifactSource,
        assignment: &Assignment,
        digest: ArtifactDigest,
    ) -> Result<CachedArtifact, Failure> {
        let slot = {
            let mut slots = self.slots();
            let slot = Arc::clone(slots.entry(digest).or_default());
            slot.users.fetch_add(1, Ordering::AcqRel);
            slot
        };
        let mut waiting = Waiting(Some(Arc::clone(&slot)));
        let failures = slot.failures.load(Ordering::Acquire);
        let mut state = slot.state.lock().await;
        slot.last_use.store(self.count.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        if let Some(found) = state.folder.clone() {
            state.folder = self.unchanged(digest, found, &slot).await?;
        }
        let folder = match (&state.folder, &state.failure) {
            (Some(found), _) => found.folder.clone(),
            // The fetch that this run has waited for has failed.
            (None, Some((code, message))) if slot.failures.load(Ordering::Acquire) > failures => {
                return Err(Failure { code: code.clone(), message: message.clone() });
            }
            _ => match self.fetch(source, assignment, digest).await {
                Ok((found, bytes)) => {
                    slot.bytes.store(bytes, Ordering::Release);
                    let folder = found.folder.clone();
                    (state.folder, state.failure) = (Some(found), None);
                    folder
                }
                Err(failure) => {
                    state.failure = Some((failure.code.clone(), failure.message.clone()));
                    slot.failures.fetch_add(1, Ordering::AcqRel);
                    return Err(failure);
                }
            },
        };
        drop(state);
        waiting.0 = None;
        let artifact = CachedArtifact { slot, folder };
        self.evict().await;
        Ok(artifact)
    }

    /// A folder that is as it was unpacked; none if it was changed, which takes it out of the cache, or
    /// is gone: an administrator may empty the cache while the node runs. A folder that cannot be read
    /// stays in the cache, and the attempt fails with an error that a retry may cure.
    async fn unchanged(
        &self,
        digest: ArtifactDigest,
        mut found: Unchanged,
        slot: &Slot,
    ) -> Result<Option<Unchanged>, Failure> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let away = self.folder.join(INCOMING).join(format!("{digest}.{number}.changed"));
        // What another run uses stays until the agent is started again.
        let is_alone = slot.users.load(Ordering::Acquire) <= 1;
        let check = move || -> io::Result<Option<Unchanged>> {
            if found.is_unchanged()? {
                return Ok(Some(found));
            }
            if is_folder(&found.folder) {
                tracing::error!(%digest, "a cached artifact was changed, and is fetched again");
                put_away(&found.folder, &away)?;
                if is_alone {
                    delete(&away);
                }
            }
            Ok(None)
        };
        let checked = tokio::task::spawn_blocking(check).await.map_err(io::Error::other).flatten();
        checked.map_err(|error| {
            let message = format!("cannot check the cached artifact: {error}");
            Failure::other("ARTIFACT_UNPACK_FAILED", message)
        })
    }

    /// Fetches, compares and unpacks. Answers the folder and its size.
    async fn fetch(
        &self,
        source: &dyn ArtifactSource,
        assignment: &Assignment,
        digest: ArtifactDigest,
    ) -> Result<(Unchanged, u64), Failure> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        for folder in [INCOMING, UNPACKED] {
            let made = fs::create_dir_all(self.folder.join(folder));
            made.map_err(|error| Failure::other("ARTIFACT_UNPACK_FAILED", error.to_string()))?;
        }
        let temporary = self.folder.join(INCOMING).join(format!("{digest}.{number}"));
        let archive = Temporary(temporary.with_extension("tar.zst"));
        tracing::info!(%digest, "fetching an artifact");
        let file = receive(source, assignment, digest, &archive.0).await?;
        let (helper, level) = (self.helper.clone(), self.level);
        let unpacked = self.folder.join(UNPACKED);
        let work = move || -> Result<(Unchanged, u64), Failure> {
            let failed =
                |error: io::Error| Failure::other("ARTIFACT_UNPACK_FAILED", error.to_string());
            let fresh = Temporary(temporary.with_extension("folder"));
            fs::create_dir(&fresh.0).map_err(failed)?;
            let content = match unpack(&helper, level, file, &fresh.0) {
                Unpacked::Done(content) => content,
                Unpacked::Invalid(problem) => {
                    return Err(Failure::refused("ARTIFACT_CORRUPT", problem));
                }
                Unpacked::Failed(problem) => {
                    return Err(Failure::other("ARTIFACT_UNPACK_FAILED", problem));
                }
            };
            let publish = || -> io::Result<Unchanged> {
                let tree = tree::digest(&fresh.0)?;
                let whole = unpacked.join(format!("{digest}-{}-{tree}", content.bytes));
                // A run that was cancelled while it waited may have left it there, whole. What is no
                // folder, such as a link, is nothing that was unpacked.
                let is_there = is_folder(&whole) && tree::digest(&whole)? == tree;
                if !is_there {
                    delete(&whole);
                    fs::rename(&fresh.0, &whole)?;
                }
                fs::set_permissions(&whole, Permissions::from_mode(0o555))?;
                File::open(&unpacked)?.sync_all()?;
                let state = Some(tree::state(&whole)?);
                Ok(Unchanged { folder: whole, tree, state })
            };
            Ok((publish().map_err(failed)?, content.bytes))
        };
        let done = tokio::task::spawn_blocking(work).await;
        drop(archive);
        done.unwrap_or_else(|error| {
            Err(Failure::other("ARTIFACT_UNPACK_FAILED", error.to_string()))
        })
    }

    /// Deletes what was not used for the longest time, while there is too much.
    async fn evict(&self) {
        let mut gone = Vec::new();
        {
            let mut slots = self.slots();
            let mut total: u64 = slots.values().map(|it| it.bytes.load(Ordering::Acquire)).sum();
            while total > self.bytes_max {
                // A user takes the lock of the slots before it counts itself, so none comes now.
                let idle = slots.iter().filter(|(_, slot)| {
                    slot.users.load(Ordering::Acquire) == 0
                        && slot.bytes.load(Ordering::Acquire) > 0
                });
                let oldest = idle.min_by_key(|(_, slot)| slot.last_use.load(Ordering::Relaxed));
                let Some(digest) = oldest.map(|(digest, _)| *digest) else { break };
                let Some(slot) = slots.remove(&digest) else { break };
                total -= slot.bytes.load(Ordering::Acquire);
                let folder = slot.state.try_lock().ok().and_then(|mut it| it.folder.take());
                let number = self.count.fetch_add(1, Ordering::Relaxed);
                let away = self.folder.join(INCOMING).join(format!("{digest}.{number}.gone"));
                // Out of sight first: a folder with its name is whole.
                if let Some(found) = folder
                    && let Err(error) = put_away(&found.folder, &away)
                {
                    tracing::warn!(%digest, %error, "an artifact stays in the cache");
                } else {
                    gone.push(away);
                }
            }
        }
        if !gone.is_empty() {
            let deleted = move || gone.iter().for_each(|folder| delete(folder));
            let _ = tokio::task::spawn_blocking(deleted).await;
        }
    }
}

/// The parts of the name of a folder: the digest of the archive, the size and the digest of the files.
fn parts(name: &str) -> Option<(ArtifactDigest, u64, ArtifactDigest)> {
    let (digest, rest) = name.split_once('-')?;
    let (bytes, tree) = rest.split_once('-')?;
    Some((digest.parse().ok()?, bytes.parse().ok()?, tree.parse().ok()?))
}

/// Whether there is a folder. A link to one is none.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Moves a folder that cannot be written.
fn put_away(folder: &Path, to: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    fs::rename(folder, to)
}

/// Receives an archive and compares its digest. Answers the file, which is read from its beginning.
async fn receive(
    source: &dyn ArtifactSource,
    assignment: &Assignment,
    digest: ArtifactDigest,
    path: &Path,
) -> Result<File, Failure> {
    let failed = |error: io::Error| Failure::other("ARTIFACT_UNPACK_FAILED", error.to_string());
    let mut chunks = source.open(assignment, digest).await.map_err(fetch_failure)?;
    let mut file = File::create_new(path).map_err(failed)?;
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    while let Some(chunk) = chunks.next().await.map_err(fetch_failure)? {
        bytes += chunk.len() as u64;
        if bytes > ARCHIVE_BYTES_MAX {
            let message = format!("the archive is longer than {ARCHIVE_BYTES_MAX} bytes");
            return Err(Failure::refused("ARTIFACT_CORRUPT", message));
        }
        hasher.update(&chunk);
        // Of a few kilobytes each, into the page cache.
        file.write_all(&chunk).map_err(failed)?;
    }
    let found = ArtifactDigest(hasher.finalize().into());
    if found != digest {
        let message = format!("what arrived is sha256:{found}, not sha256:{digest}");
        return Err(Failure::refused("ARTIFACT_CORRUPT", message));
    }
    File::open(path).map_err(failed)
}

pub(crate) fn fetch_failure(error: FetchError) -> Failure {
    match error {
        FetchError::Unavailable(message) => Failure::other("ARTIFACT_UNAVAILABLE", message),
        FetchError::Unknown(message) => Failure::refused("ARTIFACT_NOT_FOUND", message),
    }
}

/// A file or folder that is deleted with this.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        delete(&self.0);
    }
}

/// Deletes a file, or a folder whose folders cannot be written.
fn delete(path: &Path) {
    fn open(folder: &Path) {
        let _ = fs::set_permissions(folder, Permissions::from_mode(0o755));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open(&entry.path());
            }
        }
    }
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let deleted = match metadata.is_dir() {
        true => {
            open(path);
            fs::remove_dir_all(path)
        }
        false => fs::remove_file(path),
    };
    if let Err(error) = deleted {
        tracing::warn!(path = %path.display(), %error, "a temporary file of artifacts stays");
    }
}
