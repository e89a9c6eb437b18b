//! Output that an attempt has written and the writing thread has not.

use std::collections::VecDeque;
use std::time::Instant;

use super::{Limits, Stream};

/// How much text a frame holds at most, and how much makes the writer hurry.
pub(super) const FRAME_BYTES: usize = 64 << 10;

/// An output of this many bytes is short: it need not have files.
const SHORT_BYTES: u64 = 16 << 10;

/// Writes of one stream that are closer than this become one chunk.
const MERGE_MILLIS: u64 = 10;

/// Some bytes of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutputChunk {
    pub stream: Stream,
    /// When, since the output began.
    pub millis: u64,
    /// Where its first byte stands in all that was written.
    pub position: u64,
    pub bytes: Vec<u8>,
}

/// The buffer of an attempt. It holds no more than the limits let through.
pub(super) struct PendingOutput {
    limits: Limits,
    began: Instant,
    head: VecDeque<OutputChunk>,
    head_bytes: u64,
    tail: VecDeque<OutputChunk>,
    tail_bytes: u64,
    total: u64,
    /// All of it, as long as it is short.
    short: Option<VecDeque<OutputChunk>>,
    is_queued: bool,
    is_ended: bool,
}

/// The output that the writing thread takes in one go.
pub(super) struct TakenOutput {
    pub head: VecDeque<OutputChunk>,
    pub tail: VecDeque<OutputChunk>,
    pub total: u64,
    pub is_ended: bool,
}

impl PendingOutput {
    #[expect(clippy::disallowed_methods, reason = "output is stamped where it arrives")]
    pub fn new(limits: Limits, keeps_short: bool) -> Self {
        PendingOutput {
            limits,
            began: Instant::now(),
            head: VecDeque::new(),
            head_bytes: 0,
            tail: VecDeque::new(),
            tail_bytes: 0,
            total: 0,
            short: keeps_short.then(VecDeque::new),
            is_queued: false,
            is_ended: false,
        }
    }

    /// All of it, if it is short.
    pub fn short(&self) -> Option<&VecDeque<OutputChunk>> {
        self.short.as_ref()
    }

    /// Leaves everything where it is, out of the queue, if it is short and goes on; answers how
    /// much there is.
    pub fn defer(&mut self) -> Option<u64> {
        if self.short.is_none() || self.is_ended {
            return None;
        }
        self.is_queued = false;
        Some(self.total)
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds some bytes: whether the attempt must enter the queue, and whether the writer should
    /// hurry.
    #[expect(clippy::disallowed_methods, reason = "output is stamped where it arrives")]
    pub fn add(&mut self, stream: Stream, bytes: &[u8]) -> (bool, bool) {
        if self.is_ended {
            return (false, false);
        }
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let free = self.limits.head_bytes.saturating_sub(self.total);
        let (head, tail) =
            bytes.split_at(bytes.len().min(usize::try_from(free).unwrap_or(usize::MAX)));
        add(&mut self.head, stream, millis, self.total, head);
        add(&mut self.tail, stream, millis, self.total + head.len() as u64, tail);
        if let Some(short) = &mut self.short {
            add(short, stream, millis, self.total, bytes);
        }
        self.total += bytes.len() as u64;
        if self.total > SHORT_BYTES.min(self.limits.head_bytes) {
            self.short = None;
        }
        self.head_bytes += head.len() as u64;
        self.tail_bytes += tail.len() as u64;
        self.forget_the_middle();
        let is_new = !std::mem::replace(&mut self.is_queued, true);
        (is_new, self.head_bytes + self.tail_bytes >= FRAME_BYTES as u64)
    }

    /// More of the tail than is ever kept waits: the oldest of it goes.
    fn forget_the_middle(&mut self) {
        while self.tail_bytes > self.limits.tail_bytes {
            let excess = self.tail_bytes - self.limits.tail_bytes;
            let Some(oldest) = self.tail.front_mut() else { return };
            let length = oldest.bytes.len() as u64;
            let gone = length.min(excess);
            if gone == length {
                self.tail.pop_front();
            } else {
                oldest.bytes.drain(..gone as usize);
                oldest.position += gone;
            }
            self.tail_bytes -= gone;
        }
    }

    /// Ends the output: whether the attempt must enter the queue; none when it had ended before.
    pub fn end(&mut self) -> Option<bool> {
        if std::mem::replace(&mut self.is_ended, true) {
            return None;
        }
        Some(!std::mem::replace(&mut self.is_queued, true))
    }

    /// Everything, out of the queue.
    pub fn take(&mut self) -> TakenOutput {
        self.is_queued = false;
        (self.head_bytes, self.tail_bytes) = (0, 0);
        TakenOutput {
            head: std::mem::take(&mut self.head),
            tail: std::mem::take(&mut self.tail),
            total: self.total,
            is_ended: self.is_ended,
        }
    }
}

fn add(
    chunks: &mut VecDeque<OutputChunk>,
    stream: Stream,
    millis: u64,
    position: u64,
    bytes: &[u8],
) {
    let mut position = position;
    let mut bytes = bytes;
    if let Some(last) = chunks.back_mut()
        && last.stream == stream
        && last.position + last.bytes.len() as u64 == position
        && millis.saturating_sub(last.millis) < MERGE_MILLIS
    {
        let free = FRAME_BYTES.saturating_sub(last.bytes.len()).min(bytes.len());
        last.bytes.extend_from_slice(&bytes[..free]);
        position += free as u64;
        bytes = &bytes[free..];
    }
    for piece in bytes.chunks(FRAME_BYTES) {
        chunks.push_back(OutputChunk { stream, millis, position, bytes: piece.to_vec() });
        position += piece.len() as u64;
    }
}
