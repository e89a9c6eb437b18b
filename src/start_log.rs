//! The start log of a server, in its data folder: what it had begun, for the process after it.
//!
//! ```text
//!   starts.log   "PNCTLOG2" │ boot id │ node id │ store id │ file id │ last act │ record │ record │ …
//!                                                                                   └ run, fence, turn, token, start, check
//! ```
//!
//! A record is written before its action begins and not synced: it survives the process, and that
//! is all it needs to do. The log proves nothing if it was written in another boot of the machine,
//! for another store, or in another file (a copy of the folder), or if a record could not be
//! written: then every due run may have begun. The last act is the time at which the node last
//! decided about starts, in microseconds; zero before the first. A record may name a run that has
//! ended since; only its grant counts.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::id::{NodeId, RunId};
use domain::run::Grant;
use engine::{BegunRun, BegunRuns, Predecessor, StartLog};
use jiff::Timestamp;
use uuid::Uuid;

/// The file in the data folder.
pub const FILE: &str = "starts.log";

const MAGIC: &[u8; 8] = b"PNCTLOG2";

/// Bytes before the first record.
const HEAD: u64 = 128;

/// Where the head has the boot id.
const BOOT_AT: u64 = MAGIC.len() as u64;

/// Where the time of the last act begins.
const ACT: u64 = 72;

/// Bytes of a record.
const RECORD: usize = 48;

/// The number of records that the file has space for from the beginning, so that a full disk does not
/// keep a start out of the log.
const PREALLOCATED: usize = 1_024;

/// The file with the id of the present boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Conditions under which a log is valid: all of them must be the same as when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Circumstances {
    /// The boot of the machine.
    boot: Uuid,
    /// The store.
    store: Uuid,
    /// The file itself: a copy has another number.
    file: (u64, u64),
}

/// The log of one process.
pub struct FileStartLog {
    file: File,
    /// None if the boot id is unknown: the log is not valid then.
    circumstances: Option<Circumstances>,
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
    /// Opens the log of a data folder and a store, and reads what the process before this one left
    /// there.
    pub fn open(folder: &Path, store: Uuid) -> io::Result<Self> {
        let boot = std::fs::read_to_string(BOOT_ID).ok();
        Self::open_in_boot(folder, store, boot.and_then(|text| text.trim().parse().ok()))
    }

    fn open_in_boot(folder: &Path, store: Uuid, boot: Option<Uuid>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(folder.join(FILE))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let metadata = file.metadata()?;
        let file_id = (metadata.dev(), metadata.ino());
        let circumstances = boot.map(|boot| Circumstances { boot, store, file: file_id });
        let predecessor = predecessor(&bytes, circumstances.as_ref());
        Ok(FileStartLog { file, circumstances, predecessor, places: Mutex::default() })
    }

    /// The log proves nothing if the lease of the predecessor, as the store has it, ended before the
    /// last start in the log: a node begins nothing after its lease, so the store is older than the
    /// log. It was restored.
    pub fn compare_with_lease(&mut self, lease_until: impl FnOnce(NodeId) -> Option<Timestamp>) {
        let Some(Predecessor { node, begun, acted_at }) = &mut self.predecessor else { return };
        let last = begun.iter().flatten().map(|(_, begun)| begun.started_at).max();
        if let Some((last, until)) = last.zip(lease_until(*node))
            && last > until
        {
            tracing::warn!(%last, %until, "the store is older than the start log: every due run may have begun");
            (*begun, *acted_at) = (None, None);
        }
    }

    fn places(&self) -> MutexGuard<'_, LogPositions> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self, node: NodeId) -> io::Result<()> {
        self.file.set_len(0)?;
        let mut bytes = Vec::with_capacity(HEAD as usize + PREALLOCATED * RECORD);
        bytes.extend_from_slice(MAGIC);
        let circumstances = self.circumstances.as_ref();
        let boot = circumstances.map_or_else(Uuid::nil, |it| it.boot);
        bytes.extend_from_slice(boot.as_bytes());
        bytes.extend_from_slice(node.0.as_bytes());
        if let Some(Circumstances { store, file: (device, number), .. }) = circumstances {
            bytes.extend_from_slice(store.as_bytes());
            bytes.extend_from_slice(&device.to_be_bytes());
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.resize(HEAD as usize + PREALLOCATED * RECORD, 0);
        self.file.write_all_at(&bytes, 0)
    }

    /// Makes the log prove nothing: something has begun that is not in it.
    fn invalidate(&self) {
        // These bytes have their place on the disk, so that a full one does not matter.
        if let Err(error) = self.file.write_all_at(Uuid::nil().as_bytes(), BOOT_AT) {
            tracing::error!(%error, "cannot invalidate the start log: a run may be started twice after a crash");
        }
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
            self.invalidate();
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
            tracing::error!(run = %grant.run, %error, "cannot write the start log: starts of this node are unknown after a crash");
            self.invalidate();
        }
    }

    fn retract(&self, grant: Grant) {
        let mut places = self.places();
        let Some(place) = places.used.remove(&grant) else { return };
        // If it stays, a run that had not begun is taken for one that was lost.
        match self.file.write_all_at(&[0; RECORD], HEAD + place * RECORD as u64) {
            Ok(()) => places.free.push(place),
            Err(error) => tracing::warn!(run = %grant.run, %error, "cannot write the start log"),
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

fn predecessor(bytes: &[u8], now: Option<&Circumstances>) -> Option<Predecessor> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let boot = Uuid::from_slice(rest.get(..16)?).ok()?;
    let node = NodeId(Uuid::from_slice(rest.get(16..32)?).ok()?);
    let store = Uuid::from_slice(rest.get(32..48)?).ok()?;
    let number = |at: usize| Some(u64::from_be_bytes(*rest.get(at..)?.first_chunk()?));
    let written_in = Circumstances { boot, store, file: (number(48)?, number(56)?) };
    if now != Some(&written_in) {
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

    const STORE: Uuid = Uuid::from_u128(5);
    const NODE: NodeId = NodeId(Uuid::from_u128(8));

    fn boot(n: u128) -> Option<Uuid> {
        Some(Uuid::from_u128(n))
    }

    fn open(folder: &Path) -> FileStartLog {
        FileStartLog::open_in_boot(folder, STORE, boot(7)).unwrap()
    }

    fn unknown() -> Option<Predecessor> {
        Some(Predecessor { node: NODE, begun: None, acted_at: None })
    }

    #[test]
    fn the_next_process_knows_what_had_begun() {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path());
        assert_eq!(log.predecessor(), None);
        log.restart(NODE);
        for n in 1..=3 {
            log.begin(grant(n), begun(i64::from(n)));
        }
        log.end(grant(2));
        log.begin(grant(4), begun(4));
        log.begin(grant(5), begun(5));
        log.retract(grant(5));
        for at in [7, 1_770_000_000_000_000] {
            log.act(Timestamp::from_microsecond(at).unwrap());
        }
        drop(log);
        let expected: BegunRuns = [1, 3, 4].map(|n| (grant(n), begun(i64::from(n)))).into();
        let log = open(folder.path());
        let found = log.predecessor().unwrap();
        assert_eq!((found.node, found.begun.as_ref()), (NODE, Some(&expected)));
        let acted_at = found.acted_at.map(Timestamp::as_microsecond);
        assert_eq!(acted_at, Some(1_770_000_000_000_000));
        // A new node begins with nothing.
        log.restart(NodeId(Uuid::from_u128(10)));
        drop(log);
        let log = open(folder.path());
        let found = log.predecessor().unwrap();
        assert_eq!((found.begun.as_ref(), found.acted_at), (Some(&BegunRuns::new()), None));
    }

    #[test]
    fn elsewhere_the_log_proves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path());
        log.restart(NODE);
        log.begin(grant(1), begun(1));
        let reopened = |folder: &Path, store, boot| {
            let log = FileStartLog::open_in_boot(folder, store, boot).unwrap();
            log.predecessor().cloned()
        };
        assert!(reopened(folder.path(), STORE, boot(7)).unwrap().begun.is_some());
        assert_eq!(reopened(folder.path(), STORE, boot(9)), unknown(), "after a reboot");
        assert_eq!(reopened(folder.path(), STORE, None), unknown(), "in an unknown boot");
        assert_eq!(
            reopened(folder.path(), Uuid::from_u128(6), boot(7)),
            unknown(),
            "beside another store"
        );
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(folder.path().join(FILE), copy.path().join(FILE)).unwrap();
        assert_eq!(reopened(copy.path(), STORE, boot(7)), unknown(), "in a copy of the folder");
    }

    #[test]
    fn a_log_that_is_newer_than_the_store_proves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path());
        log.restart(NODE);
        log.begin(grant(1), begun(1_000));
        let at = |n| Timestamp::from_microsecond(n).unwrap();
        for (lease_until, is_known) in
            [(None, true), (Some(at(1_000)), true), (Some(at(999)), false)]
        {
            let mut log = open(folder.path());
            log.compare_with_lease(|node| lease_until.filter(|_| node == NODE));
            let known = log.predecessor().unwrap().begun.is_some();
            assert_eq!(known, is_known, "{lease_until:?}");
        }
    }

    #[test]
    fn a_start_that_cannot_be_written_makes_the_log_prove_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path());
        log.restart(NODE);
        log.begin(grant(1), begun(1));
        log.invalidate();
        assert_eq!(open(folder.path()).predecessor().cloned(), unknown());
        // The space for the first starts is there, however full the disk becomes.
        let metadata = std::fs::metadata(folder.path().join(FILE)).unwrap();
        assert!(metadata.blocks() * 512 >= PREALLOCATED as u64 * RECORD as u64);
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
