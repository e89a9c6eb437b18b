//! The trace of a world, line by line, and a hash that two equal worlds share.

use std::collections::BTreeMap;

use domain::id::{JobId, RunId};

/// The lines of a world.
#[derive(Debug, Default)]
pub struct SimTrace {
    lines: Vec<String>,
    hash: u64,
    jobs: BTreeMap<JobId, String>,
    runs: BTreeMap<RunId, String>,
}

impl SimTrace {
    /// Adds a line.
    pub fn note(&mut self, line: String) {
        // FNV-1a, over every byte of every line.
        let start = if self.lines.is_empty() { 0xcbf2_9ce4_8422_2325 } else { self.hash };
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.hash = line.bytes().chain([b'\n']).fold(start, mix);
        self.lines.push(line);
    }

    /// All lines.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The number.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// From now on a job is called that.
    pub fn name_job(&mut self, job: JobId, name: &str) {
        self.jobs.insert(job, name.to_owned());
    }

    /// From now on a run is called that.
    pub fn name_run(&mut self, run: RunId, name: String) {
        self.runs.insert(run, name);
    }

    /// The name of a job.
    pub fn job(&self, job: JobId) -> String {
        self.jobs.get(&job).cloned().unwrap_or_else(|| job.to_string())
    }

    /// The name of a run.
    pub fn run(&self, run: RunId) -> String {
        self.runs.get(&run).cloned().unwrap_or_else(|| run.to_string())
    }
}
