//! The start log of a server, in its data folder: what it had begun, for the process after it.
//!
//! ```text
//!   starts.log   "PNCTLOG1" │ boot id │ node id │ store id │ record │ record │ …
//!                                                            └ run, fence, turn, token, start, check
//! ```
//!
//! A record is written before its action begins and not synced: it survives the process, and that
//! is all it needs to do. Another boot id in the head means that the machine was restarted, another
//! store id that the log belongs to another database; then nothing is known. A record may name a run
//! that has ended since; only its grant counts. A log that could not be written proves nothing: its
//! boot id is overwritten.

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

/// Bytes of a record.
const RECORD: usize = 48;

/// Records that the file has room for from the beginning.
const PREALLOCATED: u64 = 1_024;

/// Where the kernel tells which boot this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The log of one process.
pub struct FileStartLog {
    file: File,
    boot: Option<Uuid>,
    store: Uuid,
    predecessor: Option<Predecessor>,
    places: Mutex<Places>,
}

/// Which place of the file has which record.
#[derive(Default)]
struct Places {
    used: HashMap<Grant, u64>,
    free: Vec<u64>,
    count: u64,
}

impl FileStartLog {
    /// Opens the log of a data folder and of a database, and reads what the process before this
    /// one left there.
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
        let predecessor = predecessor(&bytes, store, boot);
        Ok(FileStartLog { file, boot, store, predecessor, places: Mutex::default() })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self, node: NodeId) -> io::Result<()> {
        self.file.set_len(0)?;
        // Written, so that there is room for it when the disk is full.
        let mut bytes = vec![0; HEAD as usize + PREALLOCATED as usize * RECORD];
        let head = [self.boot.unwrap_or_default(), node.0, self.store];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        for (place, id) in bytes[MAGIC.len()..].chunks_exact_mut(16).zip(head) {
            place.copy_from_slice(id.as_bytes());
        }
        self.file.write_all_at(&bytes, 0)
    }

    /// A start is missing in the log, so that it proves nothing any more.
    fn invalidate(&self) -> io::Result<()> {
        self.file.write_all_at(Uuid::nil().as_bytes(), MAGIC.len() as u64)
    }
}

impl StartLog for FileStartLog {
    fn predecessor(&self) -> Option<&Predecessor> {
        self.predecessor.as_ref()
    }

    fn restart(&self, node: NodeId) {
        let mut places = self.places();
        *places = Places::default();
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
            tracing::error!(run = %grant.run, %error, "cannot write the start log: after a crash every due run of this node may have begun");
            if let Err(error) = self.invalidate() {
                tracing::error!(%error, "cannot invalidate the start log");
            }
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

fn predecessor(bytes: &[u8], store: Uuid, boot: Option<Uuid>) -> Option<Predecessor> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let id = |place: usize| Uuid::from_slice(rest.get(16 * place..16 * (place + 1))?).ok();
    let (written_in, node, written_for) = (id(0)?, NodeId(id(1)?), id(2)?);
    if boot != Some(written_in) || store != written_for {
        return Some(Predecessor { node, begun: None });
    }
    let records = bytes.get(HEAD as usize..).unwrap_or_default().chunks(RECORD);
    let begun: BegunRuns = records.filter_map(read_record).collect();
    Some(Predecessor { node, begun: Some(begun) })
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
        let open = |store: u128, boot| {
            FileStartLog::open_in_boot(folder.path(), Uuid::from_u128(store), boot).unwrap()
        };
        let log = open(1, boot);
        assert_eq!(log.predecessor(), None);
        log.restart(node);
        for n in 1..=3 {
            log.begin(grant(n), begun(i64::from(n)));
        }
        log.end(grant(2));
        log.begin(grant(4), begun(4));
        drop(log);
        let expected: BegunRuns = [1, 3, 4].map(|n| (grant(n), begun(i64::from(n)))).into();
        let log = open(1, boot);
        let found = log.predecessor().unwrap();
        assert_eq!((found.node, found.begun.as_ref()), (node, Some(&expected)));
        // After a reboot the node is known, and nothing else.
        let nothing = Predecessor { node, begun: None };
        let rebooted = open(1, Some(Uuid::from_u128(9)));
        assert_eq!(rebooted.predecessor(), Some(&nothing));
        assert_eq!(open(1, None).predecessor(), Some(&nothing));
        // The same with another database.
        assert_eq!(open(2, boot).predecessor(), Some(&nothing));
        // And when a start could not be written.
        log.invalidate().unwrap();
        assert_eq!(open(1, boot).predecessor(), Some(&nothing));
        // A new node begins with nothing.
        log.restart(NodeId(Uuid::from_u128(10)));
        drop(log);
        let log = open(1, boot);
        assert_eq!(log.predecessor().unwrap().begun, Some(BegunRuns::new()));
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
            assert_eq!(predecessor(bytes, Uuid::nil(), None), None);
        }
    }
}
