//! Worlds in which everything goes wrong, and the proof that nothing was lost.
//!
//! A world is made from a seed: some machines with a node each over one SQLite store, a virtual
//! clock, jobs of every kind, users that change jobs, and faults. One thing happens after
//! the other, in an order that the seed decides, so that a world can be lived through again:
//!
//! ```text
//!   cargo run -p punctual-sim -- --seed 42
//! ```
//!
//! An oracle follows accepted commands and computes every nominal time that must be in the ledger.
//! The invariants look at every event and at the ledger; see `invariants/`.

mod clock;
mod event;
mod executor;
mod faulty;
mod gate;
mod invariants;
mod jobs;
mod ledger;
mod link;
mod machine;
mod oracle;
mod profile;
mod queue_world;
mod random;
mod sabotage;
mod start_log;
mod stats;
mod trace;
mod world;

use std::fmt;
use std::path::Path;

pub use invariants::Violation;
pub use queue_world::{QueueStats, simulate_queue};
pub use sabotage::Sabotage;
pub use stats::SimStats;
use store::sqlite::GroupRecorder;

use world::World;

/// How a world is lived through.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many things happen before the quiet end.
    pub steps: usize,
    /// A defect of the store, for tests of the invariants.
    pub sabotage: Option<Sabotage>,
}

impl Default for Options {
    fn default() -> Self {
        Options { steps: 400, sabotage: None }
    }
}

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct SimReport {
    /// The seed that made it.
    pub seed: u64,
    /// The same for two equal worlds.
    pub hash: u64,
    /// The first violation of an invariant.
    pub violation: Option<Violation>,
    /// How much of what happened.
    pub stats: SimStats,
    /// The trace, line by line.
    pub trace: Vec<String>,
}

/// Lives through the world of a seed.
pub fn simulate(seed: u64, options: &Options) -> SimReport {
    simulate_recorded(seed, options, None, |_| {})
}

/// The same. The recorder receives what the store writes, and at the end `look` sees its file.
pub fn simulate_recorded(
    seed: u64,
    options: &Options,
    recorder: Option<GroupRecorder>,
    look: impl FnOnce(&Path),
) -> SimReport {
    let broken = |problem: String| Violation { invariant: "a world", detail: problem };
    let mut world = match World::new(seed, options, recorder) {
        Ok(world) => world,
        Err(error) => {
            return SimReport {
                seed,
                hash: 0,
                violation: Some(broken(error.to_string())),
                stats: SimStats::default(),
                trace: Vec::new(),
            };
        }
    };
    let violation = world.live(options).err();
    look(&world.file());
    SimReport {
        seed,
        hash: world.trace().hash(),
        violation,
        stats: world.stats(),
        trace: world.trace().lines().to_vec(),
    }
}

/// Lines of the trace that a failure shows.
const LINES_SHOWN: usize = 60;

impl fmt::Display for SimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(violation) = &self.violation else {
            return write!(f, "seed {}: sound, trace {:016x}", self.seed, self.hash);
        };
        let from = self.trace.len().saturating_sub(LINES_SHOWN);
        for line in &self.trace[from..] {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "seed {}: {violation}", self.seed)?;
        write!(f, "replay it: cargo run -p punctual-sim -- --seed {}", self.seed)
    }
}
