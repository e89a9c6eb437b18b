//! A frame: a header that describes it, then its text, compressed.
//!
//! The header is a skippable frame of zstd and the text an ordinary one, so that `zstdcat` prints
//! a file as plain text. The chain of headers is the index: a reader goes from one to the next
//! and inflates only the requested frames.
//!
//! ```text
//! 4  0x184D2A5D      4  length of what follows, up to the text
//! 1  version         1  0: text, 1: the end
//! 8  position        8  milliseconds since the output began
//! 4  compressed      4  chunks
//! …  for each chunk, 7 bits a byte, low ones first: twice its length, and 1 if it is stderr;
//!    milliseconds since the chunk before
//! …  the text, compressed, with a checksum
//! ```

use std::io::{self, Read};

use super::Stream;
use super::pending::{FRAME_BYTES, OutputChunk};

const MAGIC: u32 = 0x184D_2A5D;
const VERSION: u8 = 1;
const PREFIX: usize = 8;
const FIXED: usize = 26;
const LEVEL: i32 = 3;

/// The most that a header may claim, so that a damaged one asks for no memory.
const CHUNKS_MAX: u32 = FRAME_BYTES as u32;
const TABLE_MAX: usize = 20 * FRAME_BYTES;
const COMPRESSED_MAX: u32 = 4 * FRAME_BYTES as u32;

/// The fields of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub is_end: bool,
    pub position: u64,
    pub compressed: u32,
    /// Stream, milliseconds since the output began, length.
    pub chunks: Vec<(Stream, u64, u32)>,
}

impl Header {
    /// How many bytes of text the frame holds.
    pub fn length(&self) -> u64 {
        self.chunks.iter().map(|(_, _, length)| u64::from(*length)).sum()
    }
}

/// A frame of chunks that follow each other and are no more than one frame holds.
pub(super) fn of_text(chunks: &[OutputChunk]) -> io::Result<Vec<u8>> {
    let Some(first) = chunks.first() else { return Ok(Vec::new()) };
    let text: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.bytes.iter().copied()).collect();
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    let text = compressor.compress(&text)?;
    let mut table = Vec::new();
    let mut millis = first.millis;
    for chunk in chunks {
        let stream = u64::from(chunk.stream == Stream::Stderr);
        put_number(&mut table, (chunk.bytes.len() as u64) << 1 | stream);
        put_number(&mut table, chunk.millis.saturating_sub(millis));
        millis = chunk.millis;
    }
    let mut frame = header(0, first.position, first.millis, text.len(), chunks.len(), &table);
    frame.extend(text);
    Ok(frame)
}

/// The frame that marks the end, with the total length.
pub(super) fn of_end(total: u64) -> Vec<u8> {
    header(1, total, 0, 0, 0, &[])
}

fn header(
    kind: u8,
    position: u64,
    millis: u64,
    compressed: usize,
    chunks: usize,
    table: &[u8],
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(PREFIX + FIXED + table.len() + compressed);
    frame.extend(MAGIC.to_le_bytes());
    frame.extend(((FIXED + table.len()) as u32).to_le_bytes());
    frame.extend([VERSION, kind]);
    frame.extend(position.to_le_bytes());
    frame.extend(millis.to_le_bytes());
    frame.extend((compressed as u32).to_le_bytes());
    frame.extend((chunks as u32).to_le_bytes());
    frame.extend(table);
    frame
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a header. None is the end of the file, or a frame that is torn or damaged: nothing
/// behind it can be found.
pub(super) fn read_header(file: &mut impl Read) -> io::Result<Option<Header>> {
    let mut fixed = [0; PREFIX + FIXED];
    if !read_whole(file, &mut fixed)? {
        return Ok(None);
    }
    let mut at = Fields(&fixed);
    let (magic, length) = (at.u32(), at.u32());
    let [version, kind] = at.take();
    let (position, millis, compressed, count) = (at.u64(), at.u64(), at.u32(), at.u32());
    let is_sane = magic == MAGIC
        && version == VERSION
        && kind <= 1
        && compressed <= COMPRESSED_MAX
        && count <= CHUNKS_MAX
        && (FIXED..=FIXED + TABLE_MAX).contains(&(length as usize));
    if !is_sane {
        return Ok(None);
    }
    let mut table = vec![0; length as usize - FIXED];
    if !read_whole(file, &mut table)? {
        return Ok(None);
    }
    let mut at = Fields(&table);
    let mut chunks = Vec::with_capacity(count as usize);
    let mut millis = millis;
    for _ in 0..count {
        let (Some(number), Some(later)) = (at.number(), at.number()) else { return Ok(None) };
        let stream = if number & 1 == 1 { Stream::Stderr } else { Stream::Stdout };
        let Ok(length) = u32::try_from(number >> 1) else { return Ok(None) };
        millis = millis.saturating_add(later);
        chunks.push((stream, millis, length));
    }
    let header = Header { is_end: kind == 1, position, compressed, chunks };
    Ok((header.length() <= FRAME_BYTES as u64).then_some(header))
}

/// The text of a frame. None when it is torn or damaged.
pub(super) fn inflate(header: &Header, compressed: &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(header.length()).ok()?;
    let text = zstd::bulk::decompress(compressed, length).ok()?;
    (text.len() == length).then_some(text)
}

/// Fills the buffer; false when the file ends before it is full.
fn read_whole(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes numbers from the front of bytes that are long enough.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        if let Some((front, rest)) = self.0.split_at_checked(N) {
            bytes.copy_from_slice(front);
            self.0 = rest;
        }
        bytes
    }

    /// A number of 7 bits a byte; none when the bytes end within it.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
