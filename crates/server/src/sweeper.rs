//! The sweeper: deletes outputs of runs that are no longer in history.
//!
//! History is pruned by any node of the cluster; the files are on the machine that executed. So
//! each server walks its own folder, a part at a time, and looks up every run in it that is a day
//! old in the store. Jobs have retention rules of their own, and the lookup is correct for all of
//! them. The objects of outputs that were moved to object storage are looked up in the same way.

use std::sync::Arc;
use std::time::Duration;

use agent::output::{ArchivedOutput, Outputs};
use domain::id::RunId;
use engine::Engine;
use jiff::{SignedDuration, Timestamp};

use crate::app::App;
use crate::output_archive::OutputArchive;

/// The time between two parts: the folder has 256 of them, so each is looked at daily.
const PART_EVERY: Duration = Duration::from_secs(300);

/// The time between two pages of a part.
const PAGE_EVERY: Duration = Duration::from_secs(1);

/// Runs of one page.
const PAGE_MAX: usize = 1_000;

/// Outputs of younger runs are kept, even if the store does not have the run.
const YOUNG: SignedDuration = SignedDuration::from_hours(24);

/// Goes through the outputs of this machine, over and over.
pub struct Sweeper {
    engine: Arc<Engine>,
    outputs: Outputs,
    archive: Arc<OutputArchive>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    part: u8,
    after: Option<RunId>,
}

/// Result of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many runs lost their output.
    pub gone: usize,
    /// Whether the same part has more to look at.
    pub is_more: bool,
}

impl Sweeper {
    /// Begins anywhere: a server that is often started again must not always begin with the same.
    pub fn new(app: &App) -> Self {
        Sweeper {
            engine: Arc::clone(&app.engine),
            outputs: app.outputs.clone(),
            archive: Arc::clone(&app.output_archive),
            clock: Arc::clone(&app.clock),
            part: (app.random)() as u8,
            after: None,
        }
    }

    /// Works until the process ends.
    pub async fn run(mut self) {
        let mut pause = PART_EVERY;
        loop {
            tokio::time::sleep(pause).await;
            pause = match self.step().await {
                Ok(Swept { is_more: true, .. }) => PAGE_EVERY,
                Ok(_) => PART_EVERY,
                Err(problem) => {
                    tracing::warn!(problem, "old outputs could not be looked at");
                    PART_EVERY
                }
            };
        }
    }

    /// Looks at the next page. When the store does not answer, the same page is next again.
    pub async fn step(&mut self) -> Result<Swept, String> {
        let before = (self.clock)().saturating_sub(YOUNG).unwrap_or(Timestamp::MIN);
        let (part, after) = (self.part, self.after);
        let listed =
            blocking(&self.outputs, move |outputs| outputs.idle(part, after, before, PAGE_MAX))
                .await;
        let runs = match listed.and_then(|runs| runs.map_err(|error| error.to_string())) {
            Ok(runs) => runs,
            Err(problem) => {
                // The other parts do not suffer from it.
                (self.part, self.after) = (part.wrapping_add(1), None);
                return Err(format!("part {part:02x}: {problem}"));
            }
        };
        let mut forgotten = Vec::new();
        for run in &runs {
            let knows = self.engine.node().knows_run(*run).await;
            if !knows.map_err(|error| error.to_string())? {
                forgotten.push(*run);
            }
        }
        let mut gone =
            blocking(&self.outputs, move |outputs| delete(outputs, &forgotten, before)).await?;
        let is_more = runs.len() == PAGE_MAX;
        self.after = runs.last().copied().filter(|_| is_more);
        if !is_more {
            self.part = part.wrapping_add(1);
            gone += self.sweep_archive(part, before).await?;
        }
        Ok(Swept { gone, is_more })
    }

    /// Deletes the objects of a part whose run is not in history, or whose attempt has another one.
    /// An object whose attempt has no record of one stays: its files are, or were, on some node.
    async fn sweep_archive(&self, part: u8, before: Timestamp) -> Result<usize, String> {
        let (blobs, folder) = (&self.archive.blobs, ArchivedOutput::object_folder(part));
        let names = blobs.names_before(&folder, before.as_second()).await;
        let mut gone = 0;
        for name in names.map_err(|error| error.to_string())? {
            // What is not named like an output is none of ours.
            let Some((run, attempt, digest)) = ArchivedOutput::parts_of_name(&name) else {
                continue;
            };
            let node = self.engine.node();
            let is_needed = match node.knows_run(run).await.map_err(|error| error.to_string())? {
                false => false,
                true => {
                    let kept = node.attempt_output(run, attempt).await;
                    let kept = kept.map_err(|error| error.to_string())?;
                    let kept = kept.as_deref().and_then(ArchivedOutput::from_record);
                    kept.is_none_or(|kept| kept.digest == digest)
                }
            };
            if !is_needed {
                let deleted = blobs.delete_named(&format!("{folder}/{name}")).await;
                deleted.map_err(|error| error.to_string())?;
                gone += 1;
            }
        }
        Ok(gone)
    }
}

/// Does operations on files of outputs on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(
    outputs: &Outputs,
    work: impl FnOnce(&Outputs) -> T + Send + 'static,
) -> Result<T, String> {
    let outputs = outputs.clone();
    let done = tokio::task::spawn_blocking(move || work(&outputs)).await;
    done.map_err(|error| error.to_string())
}

/// Deletes the outputs of runs; answers of how many. Outputs that cannot be deleted are tried again
/// in the next round.
fn delete(outputs: &Outputs, runs: &[RunId], before: Timestamp) -> usize {
    let mut gone = 0;
    for run in runs {
        match outputs.delete_idle(*run, before) {
            Ok(is_gone) => gone += usize::from(is_gone),
            Err(error) => tracing::warn!(%run, %error, "the output of an old run stays"),
        }
    }
    gone
}
