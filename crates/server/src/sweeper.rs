//! The sweeper: deletes outputs of runs that are no longer in history.
//!
//! History is pruned by any node of the cluster; the files are on the machine that executed. So
//! each server walks its own folder, a part at a time, and looks up every run in it that is a day
//! old in the store. Jobs have retention rules of their own, and the lookup is correct for all of
//! them.

use std::sync::Arc;
use std::time::Duration;

use agent::output::Outputs;
use domain::id::RunId;
use engine::Engine;
use jiff::{SignedDuration, Timestamp};

use crate::app::App;

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
            self.blocking(move |outputs| outputs.idle(part, after, before, PAGE_MAX)).await;
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
        let gone = self.blocking(move |outputs| delete(outputs, &forgotten, before)).await?;
        let is_more = runs.len() == PAGE_MAX;
        self.after = runs.last().copied().filter(|_| is_more);
        if !is_more {
            self.part = part.wrapping_add(1);
        }
        Ok(Swept { gone, is_more })
    }

    /// Does file operations on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Outputs) -> T + Send + 'static,
    ) -> Result<T, String> {
        let outputs = self.outputs.clone();
        let done = tokio::task::spawn_blocking(move || work(&outputs)).await;
        done.map_err(|error| error.to_string())
    }
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
