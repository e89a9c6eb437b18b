//! Outputs in object storage: how an output becomes one object, and how its record names it.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use domain::artifact::ArtifactDigest;
use domain::id::RunId;
use sha2::{Digest, Sha256};

use super::{Outputs, Slice, Stream, frame, reader};

/// The record of an archived output begins with it. Frames begin with another byte.
const MARK: &str = "ARCHIVED sha256:";

/// The output of an attempt in object storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedOutput {
    /// The digest of the object.
    pub digest: ArtifactDigest,
    /// Its size.
    pub bytes: u64,
}

impl ArchivedOutput {
    /// The record of the attempt's output, in the place of its frames.
    pub fn to_record(self) -> Vec<u8> {
        format!("{MARK}{} {}", self.digest, self.bytes).into_bytes()
    }

    /// Reads a record; none if it is not that of an archived output.
    pub fn from_record(record: &[u8]) -> Option<Self> {
        let rest = std::str::from_utf8(record).ok()?.strip_prefix(MARK)?;
        let (digest, bytes) = rest.split_once(' ')?;
        Some(ArchivedOutput { digest: digest.parse().ok()?, bytes: bytes.parse().ok()? })
    }

    /// The name of the object. It has the run in it, so that a record leads to the output of its own
    /// run only, and an object to the history that it goes with.
    pub fn object_name(self, run: RunId, attempt: u32) -> String {
        let (folder, begin) = ArchivedOutput::object_prefix(run, attempt);
        format!("{folder}/{begin}{}", self.digest)
    }

    /// The folder of the objects of an attempt, and how their names begin.
    pub fn object_prefix(run: RunId, attempt: u32) -> (String, String) {
        let folder = ArchivedOutput::object_folder(part_of(run));
        (folder, format!("{}.{attempt}.", run.0.hyphenated()))
    }

    /// The folder of the objects of one of 256 parts of all runs.
    pub fn object_folder(part: u8) -> String {
        format!("outputs/{part:02x}")
    }

    /// Run, attempt and digest of the name of an object in its folder.
    pub fn parts_of_name(name: &str) -> Option<(RunId, u32, ArtifactDigest)> {
        let mut parts = name.split('.');
        let mut next = || parts.next();
        let found = (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
        next().is_none().then_some(found)
    }
}

/// Which of 256 parts of all runs one belongs to.
pub(super) fn part_of(run: RunId) -> u8 {
    run.0.as_bytes()[15]
}

impl Outputs {
    /// The attempts of a run that have files, in order. Blocks.
    pub fn attempts_with_files(&self, run: RunId) -> io::Result<Vec<u32>> {
        reader::attempts(&self.folder(run))
    }

    /// The size of the files of a run. Blocks.
    pub fn file_bytes(&self, run: RunId) -> io::Result<u64> {
        reader::file_bytes(&self.folder(run))
    }

    /// Writes the whole frames of an attempt to one file: what a crash has torn is not readable
    /// anyway. The same files make the same object. Blocks.
    pub fn pack(&self, run: RunId, attempt: u32, target: &Path) -> io::Result<ArchivedOutput> {
        let mut target = BufWriter::new(File::create(target)?);
        let (mut hasher, mut bytes) = (Sha256::new(), 0);
        let mut frame = Vec::new();
        for path in reader::pieces(&self.folder(run), attempt)? {
            let mut file = BufReader::new(File::open(path)?);
            let length = file.get_ref().metadata()?.len();
            let mut begin = 0;
            while let Some(header) = frame::read_header(&mut file)? {
                let end = file.stream_position()? + u64::from(header.compressed);
                if end > length {
                    break;
                }
                file.seek(SeekFrom::Start(begin))?;
                frame.clear();
                (&mut file).take(end - begin).read_to_end(&mut frame)?;
                hasher.update(&frame);
                target.write_all(&frame)?;
                bytes += frame.len() as u64;
                begin = end;
            }
        }
        target.flush()?;
        Ok(ArchivedOutput { digest: ArtifactDigest(hasher.finalize().into()), bytes })
    }

    /// Reads an object of the archive, as [`Outputs::read`] reads an output. Blocks.
    pub fn read_archived(
        object: File,
        from: u64,
        max: usize,
        stream: Option<Stream>,
    ) -> io::Result<Slice> {
        let length = object.metadata()?.len();
        let file = BufReader::with_capacity(1 << 10, object);
        // An attempt that was lost has no end frame.
        Ok(Slice { is_final: true, ..reader::read_from(vec![(file, length)], from, max, stream)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_names_are_read_as_they_are_written() {
        let it = ArchivedOutput { digest: ArtifactDigest([171; 32]), bytes: 12 };
        assert_eq!(ArchivedOutput::from_record(&it.to_record()), Some(it));
        for other in [&b""[..], b"ARCHIVED", &frame::of_end(7), b"ARCHIVED sha256:zz 1"] {
            assert_eq!(ArchivedOutput::from_record(other), None);
        }
        let run: RunId = "01996c2e-8f5c-7c31-a4f6-0d8b2f6d3c11".parse().unwrap();
        let name = it.object_name(run, 3);
        let (folder, file) = name.rsplit_once('/').unwrap();
        assert_eq!(folder, ArchivedOutput::object_folder(0x11));
        assert_eq!(ArchivedOutput::parts_of_name(file), Some((run, 3, it.digest)));
        for other in ["", "x", &format!("{file}.x"), "01996c2e-8f5c-7c31-a4f6-0d8b2f6d3c11.3"] {
            assert_eq!(ArchivedOutput::parts_of_name(other), None, "{other}");
        }
    }
}
