//! Outputs: written, read while they grow, cut to size, and recovered after a crash.

mod files;
mod short;
mod terminal;

use std::fs;
use std::path::{Path, PathBuf};

use agent::output::{Limits, Outputs, Slice, Stream};
use domain::id::RunId;
use uuid::Uuid;

/// A run whose id is made from a number.
pub fn run(number: u128) -> RunId {
    RunId(Uuid::from_u128(number))
}

fn outputs(dir: &Path, head_bytes: u64, tail_bytes: u64) -> Outputs {
    Outputs::new(dir.join("outputs"), Limits { head_bytes, tail_bytes }).unwrap()
}

/// The files below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// All of an output.
fn all(outputs: &Outputs, run: RunId, stream: Option<Stream>) -> Slice {
    outputs.read(run, 1, 0, usize::MAX, stream).unwrap()
}
