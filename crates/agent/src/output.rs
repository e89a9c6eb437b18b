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

/// What came out, in order.
type Chunks = Vec<(Stream, Vec<u8>)>;

/// Takes the output of one attempt.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<Chunks>>);

impl Output {
    /// Takes some bytes.
    pub fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut chunks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chunks.push((stream, bytes.to_vec()));
    }

    /// What one of the two has taken so far.
    pub fn read(&self, stream: Stream) -> Vec<u8> {
        let chunks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_stream = chunks.iter().filter(|(of, _)| *of == stream);
        of_stream.flat_map(|(_, bytes)| bytes).copied().collect()
    }
}
