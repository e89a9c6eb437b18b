//! Reading archives that clients made: tar, compressed with zstd.
//!
//! An archive holds files and folders and nothing else: no links, no devices, no path that leads
//! out. Every number in it is distrusted, and what is too much ends the reading before it is
//! written. The same code checks an archive that is pushed and unpacks it on an agent.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};

use domain::artifact::{
    ENTRIES_MAX, PATH_BYTES_MAX, RATIO_FREE_BYTES, RATIO_MAX, UNPACKED_BYTES_MAX, check_path,
};
use tar::EntryType;
use zstd::stream::read::Decoder;

/// Larger windows of the compression take too much memory.
const WINDOW_LOG_MAX: u32 = 25;

/// The longest extended header, in bytes.
const EXTENDED_BYTES_MAX: u64 = 64 << 10;

/// The most bytes of headers.
const HEADER_BYTES_MAX: u64 = ENTRIES_MAX * 4096;

/// Usual tools fill the last record of a tar archive with zeros, up to this size.
const PADDING_BYTES_MAX: u64 = 10 << 10;

/// Receives the content of an archive. Folders come before what is in them.
pub trait ArchiveTarget {
    /// A folder.
    fn folder(&mut self, path: &str) -> io::Result<()>;
    /// A file. Its content must be read to its end.
    fn file(&mut self, path: &str, file: ArchiveFile<'_>) -> io::Result<()>;
}

/// A file of an archive.
pub struct ArchiveFile<'a> {
    /// Whether it is a program.
    pub is_executable: bool,
    /// Its content.
    pub content: &'a mut dyn Read,
}

/// What an archive contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ArchiveContent {
    /// Files and folders.
    pub entries: u64,
    /// The size of the files.
    pub bytes: u64,
}

/// Why an archive was not read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive is at fault.
    #[error("{0}")]
    Invalid(String),
    /// Its content could not be written.
    #[error("{0}")]
    Target(io::Error),
}

fn invalid(problem: impl ToString) -> ArchiveError {
    ArchiveError::Invalid(problem.to_string())
}

/// Checks an archive of this size without writing anything.
pub fn check(archive: impl Read, archive_bytes: u64) -> Result<ArchiveContent, ArchiveError> {
    struct Nowhere;
    impl ArchiveTarget for Nowhere {
        fn folder(&mut self, _: &str) -> io::Result<()> {
            Ok(())
        }
        fn file(&mut self, _: &str, file: ArchiveFile<'_>) -> io::Result<()> {
            io::copy(file.content, &mut io::sink()).map(drop)
        }
    }
    read(archive, archive_bytes, &mut Nowhere)
}

/// Reads an archive of this size into a target.
pub fn read(
    archive: impl Read,
    archive_bytes: u64,
    target: &mut dyn ArchiveTarget,
) -> Result<ArchiveContent, ArchiveError> {
    let mut decoder = Decoder::new(archive).map_err(invalid)?.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(invalid)?;
    let ratio_max = RATIO_FREE_BYTES.max(archive_bytes.saturating_mul(RATIO_MAX));
    // Headers of many small files compress well and are no bomb: only content counts for the ratio.
    let left = ratio_max.min(UNPACKED_BYTES_MAX).saturating_add(HEADER_BYTES_MAX);
    let stream = MeteredReader { from: decoder, left };
    let mut archive = tar::Archive::new(stream);
    let content = ArchiveContent::default();
    let mut reading = Reading { target, paths: BTreeMap::new(), content, ratio_max };
    let mut long_path = None;
    for entry in archive.entries().map_err(not_tar)?.raw(true) {
        let mut entry = entry.map_err(not_tar)?;
        let kind = entry.header().entry_type();
        let size = entry.header().entry_size().map_err(not_tar)?;
        match kind {
            EntryType::XGlobalHeader => {
                extended(&mut entry, size)?;
            }
            EntryType::XHeader => long_path = path_of_pax(&extended(&mut entry, size)?)?,
            EntryType::GNULongName => {
                let text = extended(&mut entry, size)?;
                long_path = Some(text.trim_end_matches('\0').to_owned());
            }
            _ => {
                let own = String::from_utf8_lossy(&entry.header().path_bytes()).into_owned();
                let path = long_path.take().unwrap_or(own);
                let is_executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
                let content = &mut entry as &mut dyn Read;
                let file = ArchiveFile { is_executable, content };
                reading.entry(kind, &path, size, file)?;
            }
        }
    }
    let content = reading.content;
    if content.entries == 0 {
        return Err(invalid("the archive is empty"));
    }
    check_end(archive.into_inner().from)?;
    Ok(content)
}

/// Refuses data behind the end: it would give the same files any number of digests.
fn check_end(mut decoder: Decoder<'_, BufReader<impl Read>>) -> Result<(), ArchiveError> {
    let (mut padding, mut buffer) = (0, [0; 4096]);
    loop {
        let read = decoder.read(&mut buffer).map_err(not_tar)?;
        if read == 0 {
            break;
        }
        padding += read as u64;
        if padding > PADDING_BYTES_MAX || buffer[..read].iter().any(|byte| *byte != 0) {
            return Err(invalid("it has data behind its end"));
        }
    }
    match decoder.finish().read(&mut buffer).map_err(not_tar)? {
        0 => Ok(()),
        _ => Err(invalid("it has data behind its end")),
    }
}

fn not_tar(error: io::Error) -> ArchiveError {
    invalid(format!("not a tar archive compressed with zstd: {error}"))
}

/// The text of an extended header.
fn extended(entry: &mut impl Read, size: u64) -> Result<String, ArchiveError> {
    if size > EXTENDED_BYTES_MAX {
        return Err(invalid("an extended header is too long"));
    }
    let mut text = Vec::new();
    entry.read_to_end(&mut text).map_err(not_tar)?;
    String::from_utf8(text).map_err(|_| invalid("an extended header is not UTF-8"))
}

/// The path in an extended header of POSIX: lines of `LENGTH KEY=VALUE`.
fn path_of_pax(text: &str) -> Result<Option<String>, ArchiveError> {
    let (mut rest, mut path) = (text, None);
    while !rest.is_empty() {
        let torn = || invalid("an extended header is torn");
        let length: usize =
            rest.split_once(' ').and_then(|(length, _)| length.parse().ok()).ok_or_else(torn)?;
        let line = rest.get(..length).and_then(|line| line.strip_suffix('\n')).ok_or_else(torn)?;
        let (_, record) = line.split_once(' ').ok_or_else(torn)?;
        let (key, value) = record.split_once('=').ok_or_else(torn)?;
        match key {
            "path" => path = Some(value.to_owned()),
            "size" | "linkpath" => return Err(invalid(format!("an extended header sets {key}"))),
            key if key.starts_with("GNU.sparse") => return Err(invalid("it has a sparse file")),
            _ => {}
        }
        rest = &rest[length..];
    }
    Ok(path)
}

/// An archive while it is read.
struct Reading<'a> {
    target: &'a mut dyn ArchiveTarget,
    /// Every path so far, and whether it is a folder.
    paths: BTreeMap<String, bool>,
    content: ArchiveContent,
    /// How large its content may be for the size of the archive.
    ratio_max: u64,
}

impl Reading<'_> {
    fn entry(
        &mut self,
        kind: EntryType,
        path: &str,
        size: u64,
        file: ArchiveFile<'_>,
    ) -> Result<(), ArchiveError> {
        let is_folder = match kind {
            EntryType::Regular => false,
            EntryType::Directory => true,
            EntryType::Symlink | EntryType::Link => {
                return Err(invalid(format!("{path:?} is a link")));
            }
            _ => return Err(invalid(format!("{path:?} is neither a file nor a folder"))),
        };
        let mut path = path.trim_end_matches('/');
        if path.len() > PATH_BYTES_MAX {
            return Err(invalid("a path is too long"));
        }
        while let Some(rest) = path.strip_prefix("./") {
            path = rest;
        }
        if path == "." && is_folder {
            return Ok(());
        }
        check_path(path).map_err(invalid)?;
        for (at, _) in path.match_indices('/') {
            self.folder(&path[..at])?;
        }
        if is_folder {
            return self.folder(path);
        }
        if self.paths.insert(path.to_owned(), false).is_some() {
            return Err(invalid(format!("{path:?} is in the archive twice")));
        }
        self.count(1, size)?;
        let is_executable = file.is_executable;
        let mut content = ContentReader { from: file.content, read: 0, problem: None };
        let file = ArchiveFile { is_executable, content: &mut content };
        let written = self.target.file(path, file);
        if let Some(problem) = content.problem {
            return Err(not_tar(io::Error::other(problem)));
        }
        written.map_err(ArchiveError::Target)?;
        if content.read != size {
            return Err(invalid(format!("{path:?} is torn")));
        }
        Ok(())
    }

    /// A folder, which may be there already.
    fn folder(&mut self, path: &str) -> Result<(), ArchiveError> {
        match self.paths.get(path) {
            Some(true) => return Ok(()),
            Some(false) => return Err(invalid(format!("{path:?} is a file and a folder"))),
            None => {}
        }
        self.count(1, 0)?;
        self.paths.insert(path.to_owned(), true);
        self.target.folder(path).map_err(ArchiveError::Target)
    }

    fn count(&mut self, entries: u64, bytes: u64) -> Result<(), ArchiveError> {
        self.content.entries += entries;
        self.content.bytes = self.content.bytes.saturating_add(bytes);
        if self.content.entries > ENTRIES_MAX {
            return Err(invalid(format!("it has more than {ENTRIES_MAX} files and folders")));
        }
        if self.content.bytes > UNPACKED_BYTES_MAX {
            return Err(invalid(format!("it unpacks to more than {UNPACKED_BYTES_MAX} bytes")));
        }
        if self.content.bytes > self.ratio_max {
            return Err(invalid(format!("it unpacks to more than {RATIO_MAX} times its size")));
        }
        Ok(())
    }
}

/// The unpacked stream, which ends with an error when it becomes too long.
struct MeteredReader<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for MeteredReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let text = format!(
                "it unpacks to more than {RATIO_MAX} times its size, or more than \
                 {UNPACKED_BYTES_MAX} bytes"
            );
            io::Error::other(text)
        })?;
        Ok(read)
    }
}

/// The content of a file, which remembers why it could not be read: an error of the target is
/// another matter.
struct ContentReader<'a> {
    from: &'a mut dyn Read,
    read: u64,
    problem: Option<String>,
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.from.read(buffer) {
            Ok(read) => {
                self.read += read as u64;
                Ok(read)
            }
            Err(error) => {
                self.problem = Some(error.to_string());
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
