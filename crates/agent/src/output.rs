//! Where the output of attempts goes.

use std::sync::{Arc, Mutex, PoisonError};

/// Which of the two outputs of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// What it says.
    Stdout,
    /// What it complains about.
    Stderr,
}

/// Takes the output of one attempt.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<Vec<Chunk>>>);

type Chunk = (Stream, Vec<u8>);

impl Output {
    /// Takes some bytes.
    pub fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut chunks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.push((stream, bytes.to_vec()));
    }

    /// What came on a stream so far.
    pub fn text(&self, stream: Stream) -> String {
        let chunks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = chunks.iter().filter(|(of, _)| *of == stream).flat_map(|(_, bytes)| bytes);
        String::from_utf8_lossy(&bytes.copied().collect::<Vec<_>>()).into_owned()
    }
}
