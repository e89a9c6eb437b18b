//! Stores and reads the output of attempts.
//!
//! ```text
//! DIR/ab/<run>/1.zst       the head: the first bytes of attempt 1
//! DIR/ab/<run>/1.t0.zst    pieces of its tail, the oldest of them deleted as the output grows
//! DIR/deleted/<run>        the folder of a run whose files are being deleted; readers ignore it
//! ```
//!
//! A short output of a short attempt has no files at all: it is returned with the record of the
//! attempt, and kept in memory for a while ([`Outputs::keeping_short`]).
//!
//! A file is a chain of frames that is only ever appended to, so after a crash everything but the
//! last moment is readable. One thread compresses and writes for all attempts. `write` only adds to
//! a buffer and never waits: when the buffer is full, the middle of the output is dropped, which
//! exceeds the limits anyway.

mod archived;
mod frame;
mod mask;
mod masked;
mod pending;
mod printable;
mod reader;
mod recent;
mod writer;

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use domain::id::RunId;
use jiff::Timestamp;
use tokio::sync::watch;

pub use archived::ArchivedOutput;
pub use mask::Mask;
pub(crate) use masked::Masked;
use pending::{OutputChunk, PendingOutput};
pub use printable::printable;
pub use reader::{Piece, Slice};
use recent::Recent;
use writer::{OutputFiles, WriteProgress, WriteQueue};

/// Which of the two outputs of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How much of an output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many of the first bytes are kept.
    pub head_bytes: u64,
    /// How many of the last bytes are kept, at least; at most a quarter more.
    pub tail_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { head_bytes: 5 << 20, tail_bytes: 5 << 20 }
    }
}

/// The outputs that this machine keeps.
#[derive(Clone)]
pub struct Outputs(Arc<Owner>);

/// Ends the writing thread when the last handle is dropped.
struct Owner {
    shared: Arc<SharedOutputs>,
}

/// The state that the writing thread shares with the handles.
struct SharedOutputs {
    dir: PathBuf,
    limits: Limits,
    queue: WriteQueue,
    /// Whether short outputs are returned instead of written to files.
    keeps_short: bool,
    /// Short outputs that were returned lately.
    recent: Recent,
    /// The attempts that are being written by this process.
    live: Mutex<BTreeMap<(RunId, u32), Weak<Live>>>,
}

/// An attempt whose output is being written.
struct Live {
    run: RunId,
    attempt: u32,
    pending: Mutex<PendingOutput>,
    sink: Mutex<OutputFiles>,
    progress: watch::Sender<WriteProgress>,
    /// Whether it waits in memory, or did.
    is_deferred: AtomicBool,
}

/// Takes the output of one attempt. The default takes it nowhere.
#[derive(Clone, Default)]
pub struct Output(Option<Arc<Handle>>);

/// Ends the output when the last copy of an [`Output`] is gone.
struct Handle {
    live: Arc<Live>,
    owner: Arc<Owner>,
}

/// Waits for more of an output.
pub struct Follower {
    outputs: Outputs,
    run: RunId,
    attempt: u32,
    live: Option<watch::Receiver<WriteProgress>>,
    seen: u64,
}

/// The folder of runs whose files are being deleted. It is none of the 256 parts.
const DELETED: &str = "deleted";

/// How often the files of another process are looked at.
const POLL: Duration = Duration::from_millis(500);

impl Outputs {
    /// Keeps outputs in this folder, which is made if it does not exist and closed to others.
    pub fn new(dir: impl Into<PathBuf>, limits: Limits) -> io::Result<Self> {
        Outputs::open_folder(dir.into(), limits, false)
    }

    /// The same, but short outputs have no files: [`Output::finish`] returns them.
    pub fn keeping_short(dir: impl Into<PathBuf>, limits: Limits) -> io::Result<Self> {
        Outputs::open_folder(dir.into(), limits, true)
    }

    fn open_folder(dir: PathBuf, limits: Limits, keeps_short: bool) -> io::Result<Self> {
        private_folder(&dir)?;
        // A process that was killed while it deleted files has left some of them.
        if let Err(error) = remove_folder(&dir.join(DELETED)) {
            tracing::warn!(%error, "cannot remove the files of deleted outputs");
        }
        let shared = Arc::new(SharedOutputs {
            dir,
            limits,
            queue: WriteQueue::default(),
            keeps_short,
            recent: Recent::default(),
            live: Mutex::default(),
        });
        writer::start(shared.clone())?;
        Ok(Outputs(Arc::new(Owner { shared })))
    }

    /// Reads a short output that was returned and kept.
    pub fn read_short(
        frames: &[u8],
        from: u64,
        max: usize,
        stream: Option<Stream>,
    ) -> io::Result<Slice> {
        reader::read_frames(frames, from, max, stream)
    }

    /// A text as a short output that can be kept, with the end of the text if it is too long; none
    /// if there is nothing.
    pub fn short_of_text(text: &str) -> Option<Vec<u8>> {
        let mut from = 0;
        while from < text.len() {
            let bytes = text.as_bytes()[from..].to_vec();
            let total = bytes.len() as u64;
            let chunk = OutputChunk { stream: Stream::Stdout, millis: 0, position: 0, bytes };
            if let Some(frames) = writer::whole(VecDeque::from([chunk]), total) {
                return Some(frames.to_vec());
            }
            from = text.ceil_char_boundary(from + (text.len() - from).div_ceil(2));
        }
        None
    }

    /// Begins the output of an attempt. Nothing is created before something is written; what an
    /// attempt of the same number left behind is replaced then.
    pub fn open(&self, run: RunId, attempt: u32) -> Output {
        let shared = &self.0.shared;
        let live = Arc::new(Live {
            run,
            attempt,
            pending: Mutex::new(PendingOutput::new(shared.limits, shared.keeps_short)),
            sink: Mutex::new(OutputFiles::new(self.folder(run), attempt, shared.limits)),
            progress: watch::Sender::new(WriteProgress::default()),
            is_deferred: AtomicBool::new(false),
        });
        shared.recent.forget(run, Some(attempt));
        locked(&shared.live).insert((run, attempt), Arc::downgrade(&live));
        Output(Some(Arc::new(Handle { live, owner: self.0.clone() })))
    }

    /// Reads from position `from`, at most `max` bytes, of one stream or of both. Blocks.
    ///
    /// Positions count the bytes that the attempt wrote, also those that were left out, so they
    /// never change while the output grows.
    pub fn read(
        &self,
        run: RunId,
        attempt: u32,
        from: u64,
        max: usize,
        stream: Option<Stream>,
    ) -> io::Result<Slice> {
        // Asked before the files are read: what ends meanwhile is seen by the next read.
        let live = self.live(run, attempt);
        if let Some(short) = live.as_ref().and_then(|live| locked(&live.pending).short().cloned()) {
            return reader::read_frames(&writer::text_frames(short)?, from, max, stream);
        }
        if let Some(frames) = self.0.shared.recent.get((run, attempt)) {
            return reader::read_frames(&frames, from, max, stream);
        }
        let is_live = live.is_some();
        let mut slice = reader::read(&self.folder(run), attempt, from, max, stream)?;
        if slice.total == 0 && !is_live {
            slice.is_final = true;
        }
        Ok(slice)
    }

    /// Follows an output from this position: it is notified when there may be more.
    pub fn follow(&self, run: RunId, attempt: u32, from: u64) -> Follower {
        let live = self.live(run, attempt).map(|live| live.progress.subscribe());
        Follower { outputs: self.clone(), run, attempt, live, seen: from }
    }

    /// The attempts of a run that have written something, in order. Blocks.
    pub fn attempts(&self, run: RunId) -> io::Result<Vec<u32>> {
        let mut attempts = reader::attempts(&self.folder(run))?;
        attempts.extend(self.0.shared.recent.attempts(run));
        let live = locked(&self.0.shared.live);
        let live = live.range((run, 0)..=(run, u32::MAX)).filter_map(|(_, live)| live.upgrade());
        let live = live.filter(|live| locked(&live.pending).total() > 0);
        attempts.extend(live.map(|live| live.attempt));
        attempts.sort_unstable();
        attempts.dedup();
        Ok(attempts)
    }

    /// Whether this process writes the output of an attempt, or still has it in memory.
    pub fn is_in_memory(&self, run: RunId, attempt: u32) -> bool {
        self.live(run, attempt).is_some() || self.0.shared.recent.get((run, attempt)).is_some()
    }

    /// Deletes everything that a run has written. Blocks.
    ///
    /// The folder is renamed before its files are removed: a process that is killed meanwhile must
    /// not leave some of the files of an output, which readers would take for all of it.
    pub fn delete(&self, run: RunId) -> io::Result<()> {
        self.0.shared.recent.forget(run, None);
        let (folder, parent) = (self.folder(run), self.0.shared.dir.join(DELETED));
        if !folder.try_exists()? {
            return Ok(());
        }
        private_folder(&parent)?;
        let deleted = parent.join(run.0.hyphenated().to_string());
        // A removal that failed may have left a folder of this name.
        remove_folder(&deleted)?;
        match fs::rename(&folder, &deleted) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => remove_folder(&deleted),
        }
    }

    /// The runs of one of 256 parts of the folder that began nothing new since `before`, in order,
    /// at most `max` of those after `after`. Blocks.
    pub fn idle(
        &self,
        part: u8,
        after: Option<RunId>,
        before: Timestamp,
        max: usize,
    ) -> io::Result<Vec<RunId>> {
        let entries = match fs::read_dir(self.0.shared.dir.join(format!("{part:02x}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut runs = Vec::new();
        for entry in entries {
            let entry = entry?;
            let run = entry.file_name().to_str().and_then(|name| name.parse::<RunId>().ok());
            // An entry that is not the folder of a run is not touched.
            let run = run.filter(|run| self.folder(*run) == entry.path());
            runs.extend(run.filter(|run| after.is_none_or(|after| *run > after)));
        }
        runs.sort_unstable();
        let live = locked(&self.0.shared.live);
        runs.retain(|run| !is_live(&live, *run));
        drop(live);
        Ok(runs.into_iter().filter(|run| self.is_older(*run, before)).take(max).collect())
    }

    /// Deletes the output of a run if it began nothing new since `before` and writes nothing now.
    /// Returns whether it did. Blocks, and so does the beginning of other outputs meanwhile.
    pub fn delete_idle(&self, run: RunId, before: Timestamp) -> io::Result<bool> {
        let live = locked(&self.0.shared.live);
        if is_live(&live, run) || !self.is_older(run, before) {
            return Ok(false);
        }
        self.delete(run).map(|()| true)
    }

    /// Whether the folder of a run was last added to before this time. Blocks.
    pub fn is_older(&self, run: RunId, before: Timestamp) -> bool {
        let changed = fs::metadata(self.folder(run)).and_then(|folder| folder.modified());
        let changed = changed.ok().and_then(|changed| Timestamp::try_from(changed).ok());
        changed.is_some_and(|changed| changed < before)
    }

    /// A run's folder: made from a UUID and nothing else, so it cannot be anywhere else.
    fn folder(&self, run: RunId) -> PathBuf {
        let part = archived::part_of(run);
        self.0.shared.dir.join(format!("{part:02x}")).join(run.0.hyphenated().to_string())
    }

    fn live(&self, run: RunId, attempt: u32) -> Option<Arc<Live>> {
        locked(&self.0.shared.live).get(&(run, attempt)).and_then(Weak::upgrade)
    }
}

impl Output {
    /// Takes some bytes. Never waits.
    pub fn write(&self, stream: Stream, bytes: &[u8]) {
        let Some(handle) = &self.0 else { return };
        if bytes.is_empty() {
            return;
        }
        let (is_new, is_urgent) = locked(&handle.live.pending).add(stream, bytes);
        if is_new || is_urgent {
            handle.owner.shared.queue.add(is_new.then(|| handle.live.clone()), is_urgent);
        }
    }

    /// How many bytes were written so far.
    pub fn len(&self) -> u64 {
        self.0.as_ref().map_or(0, |handle| locked(&handle.live.pending).total())
    }

    /// Whether nothing was written so far.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the output and waits until all of it is in its files, or returns it: all of it if it is
    /// short, an empty text if it has files, none if nothing was written. The error is the one that
    /// kept some of it from being written.
    pub async fn finish(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(handle) = &self.0 else { return Ok(None) };
        handle.end();
        let mut progress = handle.live.progress.subscribe();
        match progress.wait_for(|progress| progress.is_final).await {
            Ok(progress) => match (&progress.error, &progress.short) {
                (Some(error), _) => Err(error.clone()),
                (None, Some(short)) => Ok(Some(short.to_vec())),
                (None, None) => Ok((progress.written > 0).then(Vec::new)),
            },
            Err(_) => Err("the writer of outputs has ended".to_owned()),
        }
    }
}

impl Handle {
    fn end(&self) {
        if let Some(is_new) = locked(&self.live.pending).end() {
            self.owner.shared.queue.add(is_new.then(|| self.live.clone()), true);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl Follower {
    /// Waits until there may be more than at the last call, or the output has ended.
    pub async fn changed(&mut self) {
        if let Some(live) = &mut self.live {
            let seen = self.seen;
            let more = live.wait_for(|now| now.written > seen || now.is_final).await;
            if let Ok(written) = more.map(|now| now.written) {
                self.seen = written;
                return;
            }
        }
        self.live = None;
        loop {
            let (outputs, run, attempt) = (self.outputs.clone(), self.run, self.attempt);
            let look = move || outputs.read(run, attempt, u64::MAX, 0, None);
            let slice = tokio::task::spawn_blocking(look).await;
            match slice {
                Ok(Ok(slice)) if slice.total <= self.seen && !slice.is_final => {
                    tokio::time::sleep(POLL).await;
                }
                Ok(Ok(slice)) => {
                    self.seen = slice.total;
                    return;
                }
                // The caller's own read meets the error and reports it.
                _ => return,
            }
        }
    }
}

/// Whether an attempt of a run is being written by this process.
fn is_live(live: &BTreeMap<(RunId, u32), Weak<Live>>, run: RunId) -> bool {
    live.range((run, 0)..=(run, u32::MAX)).any(|(_, attempt)| attempt.strong_count() > 0)
}

/// Makes a folder that is closed to others, with all above it.
fn private_folder(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Removes a folder with all files in it, if it exists.
fn remove_folder(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Locks a mutex, also after a panic in another thread: its data is always consistent.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
