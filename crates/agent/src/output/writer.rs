//! The thread that compresses and writes for all attempts, and the files of one attempt.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::pending::{FRAME_BYTES, OutputChunk, TakenOutput};
use super::{Limits, Live, SharedOutputs, frame, locked, private_folder};

/// How long a byte waits for others before it is written.
const PATIENCE: Duration = Duration::from_millis(200);

/// How long a short output is in memory only. An attempt that runs longer gets files, so that its
/// output survives a crash.
const SPILL_AFTER: Duration = Duration::from_secs(2);

/// The frames of an output that needs no files, at most.
const FRAMES_MAX: usize = 4 << 10;

/// How far the writing of an attempt has come.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteProgress {
    pub written: u64,
    pub is_final: bool,
    pub error: Option<String>,
    /// All of it, if it is final and short.
    pub short: Option<Arc<[u8]>>,
}

/// An attempt whose short output waits in memory, and until when.
struct Deferred {
    until: Instant,
    attempt: Arc<Live>,
}

/// The attempts that have something to be written.
#[derive(Default)]
pub(super) struct WriteQueue {
    state: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Default)]
struct Waiting {
    attempts: Vec<Arc<Live>>,
    is_urgent: bool,
    is_closed: bool,
}

impl WriteQueue {
    pub fn add(&self, attempt: Option<Arc<Live>>, is_urgent: bool) {
        let mut state = locked(&self.state);
        let was_idle = state.attempts.is_empty();
        state.attempts.extend(attempt);
        let hurries = is_urgent && !state.is_urgent;
        state.is_urgent |= is_urgent;
        if was_idle || hurries {
            self.wake.notify_one();
        }
    }

    pub fn close(&self) {
        locked(&self.state).is_closed = true;
        self.wake.notify_one();
    }

    /// Waits for work, or for so long; none when there is none left and never will be.
    fn next(&self, most: Option<Duration>) -> Option<Vec<Arc<Live>>> {
        let state = locked(&self.state);
        let idle = |state: &mut Waiting| state.attempts.is_empty() && !state.is_closed;
        let state = match most {
            None => self.wake.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
            Some(most) => {
                let waited = self.wake.wait_timeout_while(state, most, idle);
                let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                if timeout.timed_out() {
                    return Some(Vec::new());
                }
                state
            }
        };
        let calm = |state: &mut Waiting| !state.is_urgent && !state.is_closed;
        let (mut state, _) = self
            .wake
            .wait_timeout_while(state, PATIENCE, calm)
            .unwrap_or_else(PoisonError::into_inner);
        state.is_urgent = false;
        let attempts = std::mem::take(&mut state.attempts);
        (!attempts.is_empty() || !state.is_closed).then_some(attempts)
    }
}

/// Starts the writing thread. It ends when the last handle is dropped.
pub(super) fn start(shared: Arc<SharedOutputs>) -> io::Result<()> {
    let work = move || {
        // In the order in which they began to wait.
        let mut deferred: VecDeque<Deferred> = VecDeque::new();
        loop {
            let wait = deferred.front().map(|first| first.until.saturating_duration_since(now()));
            let Some(attempts) = shared.queue.next(wait) else { break };
            for attempt in attempts {
                let is_served = serve(&shared, &attempt, true);
                if !is_served && !attempt.is_deferred.swap(true, Ordering::Relaxed) {
                    deferred.push_back(Deferred { until: now() + SPILL_AFTER, attempt });
                }
            }
            while deferred.front().is_some_and(|first| first.until <= now())
                && let Some(due) = deferred.pop_front()
            {
                // One that ended meanwhile has been seen to.
                if !due.attempt.progress.borrow().is_final {
                    serve(&shared, &due.attempt, false);
                }
            }
        }
    };
    std::thread::Builder::new().name("outputs".into()).spawn(work)?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how long an output has been in memory only")]
fn now() -> Instant {
    Instant::now()
}

/// Writes what an attempt has waiting. Returns false if that is short and waits in memory instead.
fn serve(shared: &SharedOutputs, attempt: &Arc<Live>, may_defer: bool) -> bool {
    if may_defer
        && !locked(&attempt.sink).has_files()
        && let Some(total) = locked(&attempt.pending).defer()
    {
        // A follower reads it from memory.
        attempt.progress.send_modify(|progress| progress.written = total);
        return false;
    }
    let (taken, short) = {
        let mut pending = locked(&attempt.pending);
        let taken = pending.take();
        let short = taken.is_ended.then(|| pending.short().cloned()).flatten();
        (taken, short)
    };
    let (total, is_final) = (taken.total, taken.is_ended);
    let short = short.and_then(|chunks| whole(chunks, total));
    let answer = match &short {
        Some(frames) => {
            shared.recent.put((attempt.run, attempt.attempt), frames);
            locked(&attempt.sink).discard()
        }
        None => locked(&attempt.sink).write(taken),
    };
    if let Err(error) = &answer {
        let (run, attempt) = (attempt.run, attempt.attempt);
        tracing::error!(%run, attempt, %error, "output of an attempt is lost");
    }
    if is_final {
        let mut live = locked(&shared.live);
        let key = (attempt.run, attempt.attempt);
        // The same attempt may have been opened again meanwhile.
        if live.get(&key).is_some_and(|other| other.as_ptr() == Arc::as_ptr(attempt)) {
            live.remove(&key);
        }
    }
    attempt.progress.send_modify(|progress| {
        progress.written = total;
        progress.is_final = is_final;
        progress.short = short;
        if let Err(error) = answer {
            progress.error.get_or_insert(error.to_string());
        }
    });
    true
}

/// All frames of an output, the last one included, if that is little enough to need no files.
pub(super) fn whole(chunks: VecDeque<OutputChunk>, total: u64) -> Option<Arc<[u8]>> {
    if total == 0 {
        return None;
    }
    let mut all = text_frames(chunks).ok()?;
    all.extend(frame::of_end(total));
    (all.len() <= FRAMES_MAX).then(|| all.into())
}

/// Frames of text, one behind the other.
pub(super) fn text_frames(chunks: VecDeque<OutputChunk>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    for chunks in frames(chunks) {
        all.extend(frame::of_text(&chunks)?);
    }
    Ok(all)
}

/// The files of one attempt.
pub(super) struct OutputFiles {
    folder: PathBuf,
    attempt: u32,
    limits: Limits,
    head: Option<File>,
    tail: Option<TailPiece>,
    /// Where the next byte of the tail stands if none was left out before it.
    tail_next: u64,
    /// Number and length of the pieces of the tail that are full.
    full: VecDeque<(u32, u64)>,
    /// The first error: after it, nothing more is written.
    broken: Option<io::ErrorKind>,
}

struct TailPiece {
    number: u32,
    file: File,
    length: u64,
}

impl OutputFiles {
    pub fn new(folder: PathBuf, attempt: u32, limits: Limits) -> Self {
        OutputFiles {
            folder,
            attempt,
            limits,
            head: None,
            tail: None,
            tail_next: 0,
            full: VecDeque::new(),
            broken: None,
        }
    }

    /// Whether something was written to files.
    fn has_files(&self) -> bool {
        self.head.is_some()
    }

    /// Takes the files away: the output is kept elsewhere.
    fn discard(&mut self) -> io::Result<()> {
        if self.head.take().is_none() {
            return Ok(());
        }
        self.clear()?;
        // Other attempts may have files there.
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }

    fn write(&mut self, taken: TakenOutput) -> io::Result<()> {
        if let Some(kind) = self.broken {
            return Err(kind.into());
        }
        self.add(taken).inspect_err(|error| self.broken = Some(error.kind()))
    }

    fn add(&mut self, taken: TakenOutput) -> io::Result<()> {
        if taken.total == 0 {
            return Ok(());
        }
        if self.head.is_none() {
            private_folder(&self.folder)?;
            self.clear()?;
            self.head = Some(self.create(&format!("{}.zst", self.attempt))?);
        }
        if let Some(head) = &mut self.head {
            for chunks in frames(taken.head) {
                head.write_all(&frame::of_text(&chunks)?)?;
            }
        }
        for chunks in frames(taken.tail) {
            self.add_to_tail(&chunks)?;
        }
        let last = self.tail.as_mut().map(|piece| &mut piece.file).or(self.head.as_mut());
        if let Some(file) = last.filter(|_| taken.is_ended) {
            file.write_all(&frame::of_end(taken.total))?;
        }
        Ok(())
    }

    fn add_to_tail(&mut self, chunks: &[OutputChunk]) -> io::Result<()> {
        let piece_bytes = self.limits.tail_bytes / 4;
        let position = chunks.first().map_or(0, |chunk| chunk.position);
        let has_gap = position != std::mem::replace(&mut self.tail_next, end_of(chunks));
        if let Some(piece) = self.tail.take_if(|piece| has_gap || piece.length >= piece_bytes) {
            self.full.push_back((piece.number, piece.length));
        }
        let mut piece = match self.tail.take() {
            Some(piece) => piece,
            None => {
                let number = self.full.back().map_or(0, |(number, _)| number + 1);
                let file = self.create(&format!("{}.t{number}.zst", self.attempt))?;
                TailPiece { number, file, length: 0 }
            }
        };
        piece.file.write_all(&frame::of_text(chunks)?)?;
        piece.length += chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum::<u64>();
        let mut kept = piece.length + self.full.iter().map(|(_, length)| length).sum::<u64>();
        self.tail = Some(piece);
        while let Some((number, length)) = self.full.front().copied()
            && kept - length >= self.limits.tail_bytes
        {
            fs::remove_file(self.folder.join(format!("{}.t{number}.zst", self.attempt)))?;
            self.full.pop_front();
            kept -= length;
        }
        Ok(())
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let path = self.folder.join(name);
        OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
    }

    /// Takes away what an attempt of the same number has left.
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.split('.').next());
            if number.and_then(|number| number.parse().ok()) == Some(self.attempt) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Where the first byte after these chunks stands.
fn end_of(chunks: &[OutputChunk]) -> u64 {
    chunks.last().map_or(0, |chunk| chunk.position + chunk.bytes.len() as u64)
}

/// Chunks that follow each other, as many as fit a frame.
fn frames(chunks: VecDeque<OutputChunk>) -> Vec<Vec<OutputChunk>> {
    let mut frames: Vec<Vec<OutputChunk>> = Vec::new();
    let mut length = 0;
    let mut next = 0;
    for chunk in chunks {
        let size = chunk.bytes.len();
        let position = chunk.position;
        match frames.last_mut() {
            Some(frame) if position == next && length + size <= FRAME_BYTES => {
                length += size;
                frame.push(chunk);
            }
            _ => {
                length = size;
                frames.push(vec![chunk]);
            }
        }
        next = position + size as u64;
    }
    frames
}
