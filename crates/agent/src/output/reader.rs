//! Reads the files of an attempt, also while they are written.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::Stream;
use super::frame::{self, Header};

/// A part of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The bytes. Where some were left out, a line has their number.
    pub bytes: Vec<u8>,
    /// Which stream how many of them are of, in their order.
    pub streams: Vec<(Stream, usize)>,
    /// Where they come from, in their order.
    pub pieces: Vec<Piece>,
    /// Where to read on.
    pub next: u64,
    /// How many bytes the attempt has written so far.
    pub total: u64,
    /// How many of them were left out.
    pub omitted: u64,
    /// Whether the attempt writes no more.
    pub is_final: bool,
}

/// Bytes of a [`Slice`] that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Output of the attempt, from this position on.
    Text {
        /// The position of the first byte.
        position: u64,
        /// How many bytes.
        length: usize,
    },
    /// The line that stands for the bytes that were left out from this position on.
    Cut {
        /// The first position that was left out.
        position: u64,
        /// How many bytes were left out.
        omitted: u64,
        /// How long the line is.
        length: usize,
    },
}

impl Slice {
    /// Adds output of the attempt at the current position.
    fn add_text(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let place = self.next;
        match self.pieces.last_mut() {
            Some(Piece::Text { position, length }) if *position + *length as u64 == place => {
                *length += bytes.len();
            }
            _ => self.pieces.push(Piece::Text { position: place, length: bytes.len() }),
        }
        self.add(stream, bytes);
        self.next += bytes.len() as u64;
    }

    /// Adds a line for the bytes that were left out between the current position and this one.
    fn add_cut(&mut self, stream: Stream, until: u64) {
        let (position, omitted) = (self.next, until - self.next);
        let line = format!("\n[... {omitted} bytes left out ...]\n").into_bytes();
        self.pieces.push(Piece::Cut { position, omitted, length: line.len() });
        self.add(stream, &line);
        self.next = until;
    }

    fn add(&mut self, stream: Stream, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        match self.streams.last_mut() {
            Some((last, length)) if *last == stream => *length += bytes.len(),
            _ if bytes.is_empty() => {}
            _ => self.streams.push((stream, bytes.len())),
        }
    }
}

/// A frame and where its text is.
struct FramePosition {
    file: usize,
    offset: u64,
    header: Header,
}

/// How often a reader begins again because the writer has deleted the file that it was about to
/// read.
const TRIES: usize = 5;

pub(super) fn read(
    folder: &Path,
    attempt: u32,
    from: u64,
    max: usize,
    stream: Option<Stream>,
) -> io::Result<Slice> {
    let mut tries = 1;
    loop {
        match try_read(folder, attempt, from, max, stream) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => tries += 1,
            answer => return answer,
        }
    }
}

fn try_read(
    folder: &Path,
    attempt: u32,
    from: u64,
    max: usize,
    stream: Option<Stream>,
) -> io::Result<Slice> {
    let mut files = Vec::new();
    for path in pieces(folder, attempt)? {
        let file = BufReader::with_capacity(1 << 10, File::open(path)?);
        let length = file.get_ref().metadata()?.len();
        files.push((file, length));
    }
    read_from(files, from, max, stream)
}

/// Reads frames that are in memory.
pub(super) fn read_frames(
    frames: &[u8],
    from: u64,
    max: usize,
    stream: Option<Stream>,
) -> io::Result<Slice> {
    read_from(vec![(io::Cursor::new(frames), frames.len() as u64)], from, max, stream)
}

/// Reads an output with frames, each with its length.
pub(super) fn read_from(
    mut files: Vec<(impl Read + Seek, u64)>,
    from: u64,
    max: usize,
    stream: Option<Stream>,
) -> io::Result<Slice> {
    let mut places = Vec::new();
    let mut slice = Slice::default();
    for (number, (file, length)) in files.iter_mut().enumerate() {
        while let Some(header) = frame::read_header(file)? {
            let offset = file.stream_position()?;
            if offset + u64::from(header.compressed) > *length {
                break;
            }
            file.seek(SeekFrom::Current(i64::from(header.compressed)))?;
            slice.is_final |= header.is_end;
            slice.total = slice.total.max(header.position + header.length());
            if !header.is_end {
                places.push(FramePosition { file: number, offset, header });
            }
        }
    }
    places.sort_by_key(|place| place.header.position);
    let kept: u64 = places.iter().map(|place| place.header.length()).sum();
    slice.omitted = slice.total.saturating_sub(kept);

    slice.next = from.min(slice.total);
    for place in &places {
        let (begin, end) = (place.header.position, place.header.position + place.header.length());
        if end <= slice.next {
            continue;
        }
        if slice.bytes.len() >= max {
            break;
        }
        if begin > slice.next {
            slice.add_cut(stream.unwrap_or(Stream::Stdout), begin);
        }
        let (file, _) = &mut files[place.file];
        file.seek(SeekFrom::Start(place.offset))?;
        let mut compressed = vec![0; place.header.compressed as usize];
        file.read_exact(&mut compressed)?;
        // A frame that was torn when the machine went down ends the readable part.
        let Some(text) = frame::inflate(&place.header, &compressed) else { break };
        cut(&place.header, &text, stream, max, &mut slice);
    }
    Ok(slice)
}

/// Adds the requested part of a frame, from the current position of the slice on.
fn cut(header: &Header, text: &[u8], stream: Option<Stream>, max: usize, slice: &mut Slice) {
    let mut begin = 0;
    for (which, _, length) in &header.chunks {
        let chunk = &text[begin..begin + *length as usize];
        let position = header.position + begin as u64;
        begin += *length as usize;
        let skip = (slice.next.saturating_sub(position) as usize).min(chunk.len());
        let chunk = &chunk[skip..];
        if stream.is_some_and(|stream| stream != *which) {
            slice.next += chunk.len() as u64;
            continue;
        }
        let taken = chunk.len().min(max.saturating_sub(slice.bytes.len()));
        slice.add_text(*which, &chunk[..taken]);
        if taken < chunk.len() {
            return;
        }
    }
}

/// The files of an attempt: the head, then the pieces of the tail in order.
pub(super) fn pieces(folder: &Path, attempt: u32) -> io::Result<Vec<PathBuf>> {
    let mut pieces: Vec<(Option<u32>, PathBuf)> = Vec::new();
    for (number, piece, path) in files(folder)? {
        if number == attempt {
            pieces.push((piece, path));
        }
    }
    pieces.sort();
    Ok(pieces.into_iter().map(|(_, path)| path).collect())
}

/// The attempts that have a head.
pub(super) fn attempts(folder: &Path) -> io::Result<Vec<u32>> {
    let files = files(folder)?;
    let mut attempts: Vec<u32> = files
        .into_iter()
        .filter(|(_, piece, _)| piece.is_none())
        .map(|(number, ..)| number)
        .collect();
    attempts.sort_unstable();
    Ok(attempts)
}

/// The size of all files of a run.
pub(super) fn file_bytes(folder: &Path) -> io::Result<u64> {
    files(folder)?.into_iter().map(|(.., path)| Ok(fs::metadata(path)?.len())).sum()
}

/// Every file of a run: attempt, piece of the tail, path. Files with other names are ignored.
fn files(folder: &Path) -> io::Result<Vec<(u32, Option<u32>, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".zst")) else { continue };
        let (number, piece) = match name.split_once(".t") {
            Some((number, piece)) => (number.parse(), piece.parse().ok()),
            None => (name.parse(), None),
        };
        if let Ok(number) = number {
            files.push((number, piece, entry.path()));
        }
    }
    Ok(files)
}
