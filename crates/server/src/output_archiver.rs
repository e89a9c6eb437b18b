//! The archiver: moves outputs of ended runs from the files of this server to object storage.
//!
//! ```text
//! pack the files ──▶ write the object ──▶ record it in the store ──▶ delete the files
//! ```
//!
//! A process that is killed in between leaves files: the next round finds them and goes on. Readers
//! prefer the object to the files as soon as it is recorded, so at every moment one of them has the
//! whole output.
//! The files of a run that cannot be read stay, and the other runs are moved all the same.
//! Objects without a record go with the [sweeper](crate::Sweeper).

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent::output::{ArchivedOutput, Outputs};
use domain::id::RunId;
use domain::run::RunState;
use engine::Engine;
use jiff::{SignedDuration, Timestamp};

use crate::app::App;
use crate::output_archive::OutputArchive;
use crate::sweeper::blocking;

/// The time between two pages, so that the disk has time for others.
const PAGE_EVERY: Duration = Duration::from_millis(500);

/// The longest time between two rounds, and the time after a failure of the store or of object
/// storage.
const PAUSE: Duration = Duration::from_secs(30);

/// Parts of a round: parts of the folder.
const PARTS: u32 = 256;

/// Runs of one page.
const PAGE_MAX: usize = 200;

/// Files that were added to so lately stay, however large they are.
const YOUNG: SignedDuration = SignedDuration::from_secs(60);

/// How many runs with unusable files are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// Which outputs are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRule {
    /// Those whose files are older than this.
    pub after: Option<SignedDuration>,
    /// Those whose files have at least so many bytes, as soon as their runs have ended.
    pub bytes: Option<u64>,
}

/// Goes through the outputs of this server, over and over.
pub struct OutputArchiver {
    engine: Arc<Engine>,
    outputs: Outputs,
    archive: Arc<OutputArchive>,
    rule: ArchiveRule,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    part: u8,
    after: Option<RunId>,
    /// Runs whose files could not be read: the next rounds try again, without a message.
    unreadable: BTreeSet<RunId>,
    /// Runs whose files are not what their record names: they are not packed again.
    differing: BTreeSet<RunId>,
}

/// Why the output of a run was not moved.
enum MoveError {
    /// The files of this run cannot be read or deleted; other runs can be moved.
    Files(String),
    /// The store or object storage is unavailable; no run can be moved.
    Unavailable(String),
}

impl MoveError {
    fn from_files(error: impl ToString) -> Self {
        MoveError::Files(error.to_string())
    }

    fn from_service(error: impl ToString) -> Self {
        MoveError::Unavailable(error.to_string())
    }
}

/// Result of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedPage {
    /// How many runs were looked at.
    pub seen: usize,
    /// How many of them have their outputs in object storage now.
    pub moved: usize,
    /// Whether the same part has more to look at.
    pub is_more: bool,
}

impl OutputArchiver {
    /// The archiver of a server; none if nothing is to be moved.
    pub fn new(app: &App, rule: ArchiveRule) -> Option<Self> {
        (rule != ArchiveRule::default()).then(|| OutputArchiver {
            engine: Arc::clone(&app.engine),
            outputs: app.outputs.clone(),
            archive: Arc::clone(&app.output_archive),
            rule,
            clock: Arc::clone(&app.clock),
            part: (app.random)() as u8,
            after: None,
            unreadable: BTreeSet::new(),
            differing: BTreeSet::new(),
        })
    }

    /// Works until the process ends.
    pub async fn run(mut self) {
        // A short age is for small disks and for tests.
        let every = self.rule.after.map_or(PAUSE, |after| (after / 10).unsigned_abs().min(PAUSE));
        let every = every.max(PAGE_EVERY);
        let (mut has_failed, mut parts) = (false, 0);
        loop {
            let pause = match self.step().await {
                Ok(page) => {
                    if std::mem::take(&mut has_failed) {
                        tracing::info!("outputs are moved to object storage again");
                    }
                    parts += u32::from(!page.is_more);
                    match page.seen {
                        _ if parts == PARTS => every,
                        0 => continue,
                        _ => PAGE_EVERY,
                    }
                }
                Err(problem) => {
                    if !std::mem::replace(&mut has_failed, true) {
                        tracing::warn!(problem, "outputs cannot be moved to object storage");
                    }
                    PAUSE
                }
            };
            parts %= PARTS;
            tokio::time::sleep(pause).await;
        }
    }

    /// Looks at the next page. After a failure of the store or of object storage the same page is
    /// next again.
    pub async fn step(&mut self) -> Result<ArchivedPage, String> {
        let now = (self.clock)();
        let before = |age| now.saturating_sub(age).unwrap_or(Timestamp::MIN);
        let young = before(self.rule.after.map_or(YOUNG, |after| match self.rule.bytes {
            Some(_) => after.min(YOUNG),
            None => after,
        }));
        let old = self.rule.after.map_or(Timestamp::MIN, before);
        let (part, after, large) = (self.part, self.after, self.rule.bytes);
        let listed = blocking(&self.outputs, move |outputs| {
            let runs = outputs.idle(part, after, young, PAGE_MAX)?;
            let is_due = |run: &RunId| {
                let is_large = |bytes| outputs.file_bytes(*run).is_ok_and(|found| found >= bytes);
                outputs.is_older(*run, old) || large.is_some_and(is_large)
            };
            let due: Vec<RunId> = runs.iter().copied().filter(is_due).collect();
            Ok::<_, io::Error>((runs.last().copied(), runs.len(), due))
        });
        let (last, seen, due) = match listed.await? {
            Ok(listed) => listed,
            Err(error) => {
                // The other parts can be moved.
                (self.part, self.after) = (part.wrapping_add(1), None);
                return Err(format!("cannot list outputs of part {part:02x}: {error}"));
            }
        };
        let is_more = seen == PAGE_MAX;
        let mut moved = 0;
        for run in due {
            if self.differing.contains(&run) {
                continue;
            }
            match self.move_run(run, young).await {
                Ok(is_moved) => {
                    self.unreadable.remove(&run);
                    moved += usize::from(is_moved);
                }
                Err(MoveError::Files(problem)) => {
                    if remember(&mut self.unreadable, run) {
                        tracing::warn!(%run, problem, "cannot archive the output of a run");
                    }
                }
                Err(MoveError::Unavailable(problem)) => return Err(problem),
            }
        }
        self.after = last.filter(|_| is_more);
        if !is_more {
            self.part = part.wrapping_add(1);
        }
        Ok(ArchivedPage { seen, moved, is_more })
    }

    /// Moves the outputs of a run, if it has ended. Answers whether it has no files any more.
    async fn move_run(&mut self, run: RunId, before: Timestamp) -> Result<bool, MoveError> {
        let found = self.engine.node().run(run).await.map_err(MoveError::from_service)?;
        // Files without a run are the sweeper's.
        if !found.is_some_and(|found| matches!(found.state, RunState::Ended(_))) {
            return Ok(false);
        }
        let attempts = self.files(move |outputs| outputs.attempts_with_files(run)).await?;
        for attempt in attempts {
            if !self.move_attempt(run, attempt).await? {
                // A record is never replaced by another one, and the run writes no more.
                if remember(&mut self.differing, run) {
                    tracing::warn!(%run, attempt, "files kept: the record names another output");
                }
                return Ok(false);
            }
        }
        self.files(move |outputs| outputs.delete_idle(run, before)).await
    }

    /// Writes the object of an attempt and records it. Answers whether the record names what the
    /// files contain.
    async fn move_attempt(&self, run: RunId, attempt: u32) -> Result<bool, MoveError> {
        let node = self.engine.node();
        let kept = node.attempt_output(run, attempt).await.map_err(MoveError::from_service)?;
        // Another attempt of the number, whose output is recorded: these files stay as long as the
        // history.
        let recorded = match kept.as_deref() {
            None | Some([]) => None,
            Some(record) => match ArchivedOutput::from_record(record) {
                Some(archived) => Some(archived),
                None => return Ok(false),
            },
        };
        let part = self.archive.temporary();
        let target = part.0.clone();
        let packed = self.files(move |outputs| outputs.pack(run, attempt, &target)).await?;
        if let Some(recorded) = recorded {
            return Ok(recorded == packed);
        }
        if packed.bytes == 0 {
            return Ok(true);
        }
        let name = packed.object_name(run, attempt);
        let written = self.archive.blobs.put_named(&name, &part.0).await;
        written.map_err(MoveError::from_service)?;
        let recorded = node.archive_output(run, attempt, &packed.to_record()).await;
        recorded.map_err(MoveError::from_service)
    }

    /// Does operations on the files of a run.
    async fn files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Outputs) -> io::Result<T> + Send + 'static,
    ) -> Result<T, MoveError> {
        let done = blocking(&self.outputs, work).await.map_err(MoveError::Files)?;
        done.map_err(MoveError::from_files)
    }
}

/// Remembers a run; answers whether it is new.
fn remember(runs: &mut BTreeSet<RunId>, run: RunId) -> bool {
    if runs.len() >= REMEMBERED_MAX {
        runs.clear();
    }
    runs.insert(run)
}
