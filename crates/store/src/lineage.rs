//! Whether the tables of a database were made by the migrations that this release knows.
//!
//! A released migration never changes. So a database whose migrations have other checksums was made
//! before the first release, when the migrations still changed; there is no way from those tables
//! to these.

use refinery::Migration;

use crate::StoreError;

/// A migration as the database recorded it: its number and its checksum.
pub(crate) type Recorded = (i32, String);

/// All that a database recorded.
pub(crate) const RECORDED: &str =
    "SELECT version, checksum FROM refinery_schema_history ORDER BY version";

/// Refuses a database that recorded another migration under a number that this release knows.
/// `empty` names an empty place of the same kind.
pub(crate) fn check(
    known: &[Migration],
    recorded: &[Recorded],
    empty: &str,
) -> Result<(), StoreError> {
    let differs = |(number, checksum): &&Recorded| {
        known
            .iter()
            .any(|known| known.version() == *number && known.checksum().to_string() != *checksum)
    };
    match recorded.iter().find(differs) {
        Some((number, _)) => Err(StoreError::Refused {
            problem: format!(
                "the database was made by a development version of Punctual: its migration \
                 V{number} is not that of this release"
            ),
            advice: format!(
                "start the older binary on it, run punctual export > jobs.yaml, start this one on \
                 {empty}, and run punctual apply -f jobs.yaml; only jobs move this way"
            ),
        }),
        None => Ok(()),
    }
}
