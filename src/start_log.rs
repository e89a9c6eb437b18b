//! The start log of a server, in its data folder: what it had begun, for the process after it.
//!
//! ```text
//!   starts.log   "PNCTLOG1" │ boot id │ node id │ last act │ … │ record │ record │ …
//!                                                                └ run, fence, turn, token, start, check
//! ```
//!
//! A record is written before its action begins and not synced: it survives the process, and that
//! is all it needs to do. Another boot id in the head means that the machine was restarted, and then
//! nothing is known. The last act is the time at which the node last decided about starts, in
//! microseconds; zero before the first. A record may name a run that has ended since; only its grant counts.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::id::{NodeId, RunId};
use domain::run::Grant;
use engine::{BegunRun, BegunRuns, Predecessor, StartLog};
use jiff::Timestamp;
use uuid::Uuid;

/// The file in the data folder.
pub const FILE: &str = "starts.log";

const MAGIC: &[u8; 8] = b"PNCTLOG1";

/// Bytes before the first record.
const HEAD: u64 = 64;

/// Where the time of the last act begins.
const ACT: u64 = 40;

/// Bytes of a record.
const RECORD: usize = 48;

/// The number of records that the file is allocated for at first.
const PREALLOCATED: u64 = 1_024;

/// Where the kernel tells which boot this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The log of one process.
pub struct FileStartLog {
    file: File,
    boot: Option<Uuid>,
    predecessor: Option<Predecessor>,
    places: Mutex<LogPositions>,
}

/// Which place of the file has which record.
#[derive(Default)]
struct LogPositions {
    used: HashMap<Grant, u64>,
    free: Vec<u64>,
    count: u64,
}

impl FileStartLog {
    /// Opens the log of a data folder, and reads what the process before this one left there.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let boot = std::fs::read_to_string(BOOT_ID).ok();
        Self::open_in_boot(folder, boot.and_then(|text| text.trim().parse().ok()))
    }

    fn open_in_boot(folder: &Path, boot: Option<Uuid>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(folder.join(FILE))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let predecessor = predecessor(&bytes, boot);
        Ok(FileStartLog { file, boot, predecessor, places: Mutex::default() })
    }

    fn places(&self) -> MutexGuard<'_, LogPositions> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self, node: NodeId) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.set_len(HEAD + PREALLOCATED * RECORD as u64)?;
        let mut head = Vec::with_capacity(HEAD as usize);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(self.boot.unwrap_or_default().as_bytes());
        head.extend_from_slice(node.0.as_bytes());
        self.file.write_all_at(&head, 0)
    }
}

impl StartLog for FileStartLog {
    fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    fn restart(&self, node: NodeId) {
        let mut places = self.places();
        *places = LogPositions::default();
        if let Err(error) = self.clear(node) {
            tracing::error!(%error, "cannot write the start log: starts of this node are unknown after a crash");
        }
    }

    fn begin(&self, grant: Grant, begun: BegunRun) {
        let mut places = self.places();
        let place = places.free.pop().unwrap_or_else(|| {
            places.count += 1;
            places.count - 1
        });
        places.used.insert(grant, place);
        let at = HEAD + place * RECORD as u64;
        if let Err(error) = self.file.write_all_at(&record(grant, begun), at) {
            tracing::error!(run = %grant.run, %error, "cannot write the start log");
        }
    }

    fn act(&self, at: Timestamp) {
        if let Err(error) = self.file.write_all_at(&at.as_microsecond().to_be_bytes(), ACT) {
            tracing::error!(%error, "cannot write the start log");
        }
    }

    fn end(&self, grant: Grant) {
        let mut places = self.places();
        if let Some(place) = places.used.remove(&grant) {
            places.free.push(place);
        }
    }
}

fn record(grant: Grant, begun: BegunRun) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    bytes[..16].copy_from_slice(grant.run.0.as_bytes());
    bytes[16..24].copy_from_slice(&grant.fence.to_be_bytes());
    bytes[24..28].copy_from_slice(&grant.turn.to_be_bytes());
    bytes[28..36].copy_from_slice(&begun.token.to_be_bytes());
    bytes[36..44].copy_from_slice(&begun.started_at.as_microsecond().to_be_bytes());
    let check = check(&bytes[..44]);
    bytes[44..].copy_from_slice(&check.to_be_bytes());
    bytes
}

/// A sum that an empty or torn record does not have.
fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn read_record(bytes: &[u8]) -> Option<(Grant, BegunRun)> {
    let number = |at: usize| Some(i64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    if short(44)? != check(bytes.get(..44)?) {
        return None;
    }
    let run = RunId(Uuid::from_slice(bytes.get(..16)?).ok()?);
    let started_at = Timestamp::from_microsecond(number(36)?).ok()?;
    let grant = Grant { run, fence: number(16)?, turn: short(24)? };
    Some((grant, BegunRun { started_at, token: number(28)? }))
}

fn predecessor(bytes: &[u8], boot: Option<Uuid>) -> Option<Predecessor> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let written_in = Uuid::from_slice(rest.get(..16)?).ok()?;
    let node = NodeId(Uuid::from_slice(rest.get(16..32)?).ok()?);
    if boot != Some(written_in) {
        return Some(Predecessor { node, begun: None, acted_at: None });
    }
    let records = bytes.get(HEAD as usize..).unwrap_or_default().chunks(RECORD);
    let begun: BegunRuns = records.filter_map(read_record).collect();
    let acted_at = bytes.get(ACT as usize..).and_then(|rest| rest.first_chunk());
    let acted_at = acted_at.map(|bytes| i64::from_be_bytes(*bytes)).filter(|at| *at > 0);
    let acted_at = acted_at.and_then(|at| Timestamp::from_microsecond(at).ok());
    Some(Predecessor { node, begun: Some(begun), acted_at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(n: u8) -> Grant {
        Grant { run: RunId(Uuid::from_bytes([n; 16])), fence: i64::from(n), turn: 2 }
    }

    fn begun(n: i64) -> BegunRun {
        BegunRun { started_at: Timestamp::from_microsecond(n).unwrap(), token: n << 40 }
    }

    #[test]
    fn the_next_process_knows_what_had_begun() {
        let folder = tempfile::tempdir().unwrap();
        let (boot, node) = (Some(Uuid::from_u128(7)), NodeId(Uuid::from_u128(8)));
        let log = FileStartLog::open_in_boot(folder.path(), boot).unwrap();
        assert_eq!(log.predecessor(), None);
        log.restart(node);
        for n in 1..=3 {
            log.begin(grant(n), begun(i64::from(n)));
        }
        log.end(grant(2));
        log.begin(grant(4), begun(4));
        for at in [7, 1_770_000_000_000_000] {
            log.act(Timestamp::from_microsecond(at).unwrap());
        }
        drop(log);
        let expected: BegunRuns = [1, 3, 4].map(|n| (grant(n), begun(i64::from(n)))).into();
        let log = FileStartLog::open_in_boot(folder.path(), boot).unwrap();
        let found = log.predecessor().unwrap();
        assert_eq!((found.node, found.begun.as_ref()), (node, Some(&expected)));
        let acted_at = found.acted_at.map(Timestamp::as_microsecond);
        assert_eq!(acted_at, Some(1_770_000_000_000_000));
        // After a reboot the node is known, and nothing else.
        let rebooted = FileStartLog::open_in_boot(folder.path(), Some(Uuid::from_u128(9))).unwrap();
        let node_alone = Predecessor { node, begun: None, acted_at: None };
        assert_eq!(rebooted.predecessor(), Some(&node_alone));
        let unknown = FileStartLog::open_in_boot(folder.path(), None).unwrap();
        assert_eq!(unknown.predecessor(), Some(&node_alone));
        // A new node begins with nothing.
        log.restart(NodeId(Uuid::from_u128(10)));
        drop(log);
        let log = FileStartLog::open_in_boot(folder.path(), boot).unwrap();
        let found = log.predecessor().unwrap();
        assert_eq!((found.begun.as_ref(), found.acted_at), (Some(&BegunRuns::new()), None));
    }

    #[test]
    fn what_is_torn_or_no_log_is_not_read() {
        let whole = record(grant(1), begun(1));
        assert_eq!(read_record(&whole), Some((grant(1), begun(1))));
        for at in 0..RECORD {
            let mut torn = whole;
            torn[at] ^= 1;
            assert_eq!(read_record(&torn), None, "byte {at}");
        }
        assert_eq!(read_record(&[0; RECORD]), None);
        assert_eq!(read_record(&whole[..20]), None);
        for bytes in [&b""[..], b"PNCTLOG1", b"something else that is long enough to be a head"] {
            assert_eq!(predecessor(bytes, None), None);
        }
    }
}
