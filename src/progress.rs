//! Progress of long work on stderr, shown only on a terminal.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::OutputArgs;

/// How often a line moves that does not know how long the work is.
const TICK: Duration = Duration::from_millis(120);

/// A line that says how far work is. It is gone when the work is.
pub struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Of so many things.
    pub fn of(output: &OutputArgs, what: &str, total: usize) -> Self {
        let line = "{msg} [{bar:30}] {pos}/{len}, {eta} left";
        ProgressLine::new(output, what, ProgressBar::new(total as u64), line)
    }

    /// Of so many bytes.
    pub fn of_bytes(output: &OutputArgs, what: &str, total: u64) -> Self {
        let line = "{msg} [{bar:30}] {binary_bytes}/{binary_total_bytes}, {eta} left";
        ProgressLine::new(output, what, ProgressBar::new(total), line)
    }

    /// Of bytes, of unknown number.
    pub fn of_stream(output: &OutputArgs, what: &str) -> Self {
        let line = "{spinner} {msg} {binary_bytes}, {elapsed}";
        let progress = ProgressLine::new(output, what, ProgressBar::no_length(), line);
        progress.0.enable_steady_tick(TICK);
        progress
    }

    /// Of work that says nothing until it is done.
    pub fn of_work(output: &OutputArgs, what: &str) -> Self {
        let line = "{spinner} {msg}, {elapsed}";
        let progress = ProgressLine::new(output, what, ProgressBar::no_length(), line);
        progress.0.enable_steady_tick(TICK);
        progress
    }

    fn new(output: &OutputArgs, what: &str, bar: ProgressBar, line: &str) -> Self {
        let is_seen = stderr().is_terminal() && !output.is_quiet();
        bar.set_draw_target(match is_seen {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        });
        if let Ok(style) = ProgressStyle::with_template(line) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        ProgressLine(bar)
    }

    /// So much is done now.
    pub fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// One more is done.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// Does something that prints, without the line in its way.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
