//! Runs that leave the list of those that are under way. They mostly came together, so they lie
//! next to each other, and neighbours leave in one piece.

use rusqlite::Connection;

use super::holdings::Held;
use crate::{Result, StoreError};

/// Runs of one piece at most. Where one of another kind lies in between, so many leave one by one.
const PIECE: usize = 50;

/// Where a run is in the list.
type ListKey = (uuid::Uuid, i64, uuid::Uuid);

/// Runs that have ended and are still listed.
#[derive(Default)]
pub(super) struct Leaving(Vec<ListKey>);

impl Leaving {
    pub fn push(&mut self, held: &Held) {
        self.0.push((held.job.0, held.order_at, held.run.0));
    }

    /// Takes them off the list. All of them are on it, by the in-memory state.
    pub fn flush(&mut self, connection: &Connection) -> Result<()> {
        self.0.sort_unstable();
        for together in self.0.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            for piece in together.chunks(PIECE) {
                if !leave_in_one_piece(connection, piece)? {
                    piece.iter().try_for_each(|place| leave(connection, *place))?;
                }
            }
        }
        self.0.clear();
        Ok(())
    }
}

/// Returns false when others are in between.
fn leave_in_one_piece(connection: &Connection, piece: &[ListKey]) -> Result<bool> {
    let [(job, order_at, first), .., (.., last)] = piece else { return Ok(false) };
    // How many runs of a job lie between two of them; one more than expected (?5) is enough to
    // know.
    let sql = "SELECT count(*) FROM (
                   SELECT 1 FROM live
                   WHERE job_id = ?1 AND order_at = ?2 AND id BETWEEN ?3 AND ?4 LIMIT ?5 + 1
               )";
    let mut count = connection.prepare_cached(sql)?;
    let between = (job, order_at, first, last, piece.len() as u32);
    if count.query_row(between, |row| row.get::<_, u32>(0))? as usize != piece.len() {
        return Ok(false);
    }
    // Runs of a job that have ended and lie next to each other.
    let sql = "DELETE FROM live WHERE job_id = ?1 AND order_at = ?2 AND id BETWEEN ?3 AND ?4";
    let mut delete = connection.prepare_cached(sql)?;
    Ok(delete.execute((job, order_at, first, last))? == piece.len())
}

/// The in-memory state must match the table.
fn leave(connection: &Connection, place: ListKey) -> Result<()> {
    if connection.prepare_cached(sql!("live_delete"))?.execute(place)? == 1 {
        return Ok(());
    }
    Err(StoreError::Unreadable(format!("run {} is held and is not there", place.2)))
}

#[cfg(test)]
mod tests {
    use domain::id::{JobId, NodeId, RunId, TenantId};
    use domain::slot::SlotKind;
    use uuid::Uuid;

    use super::*;

    /// A job, a place in line and a run.
    type Short = (u128, i64, u128);

    fn held((job, order_at, run): Short) -> Held {
        let id = Uuid::from_u128;
        Held {
            node: NodeId(id(1)),
            run: RunId(id(run)),
            fence: 1,
            turn: 0,
            seq: 1,
            job: JobId(id(job)),
            tenant: TenantId(id(1)),
            slot: SlotKind::Process,
            order_at,
            attempts: 0,
            lost: 0,
            cancelled: false,
        }
    }

    /// Runs on the list after these have left it.
    fn left(listed: &[Short], leaving: &[Short]) -> Result<Vec<Short>> {
        let connection = Connection::open_in_memory().unwrap();
        let table = "CREATE TABLE live (job_id BLOB, order_at INTEGER, id BLOB, seq INTEGER,
                PRIMARY KEY (job_id, order_at, id)) WITHOUT ROWID";
        connection.execute_batch(table).unwrap();
        for short in listed {
            let held = held(*short);
            let values = (held.job.0, held.order_at, held.run.0);
            connection.execute("INSERT INTO live VALUES (?1, ?2, ?3, 0)", values).unwrap();
        }
        let mut gone = Leaving::default();
        leaving.iter().for_each(|short| gone.push(&held(*short)));
        gone.flush(&connection)?;
        assert!(gone.0.is_empty());
        let mut query = connection.prepare("SELECT * FROM live").unwrap();
        let rows = query.query_map([], |row| {
            let id = |at| row.get::<_, Uuid>(at).map(|id| id.as_u128());
            Ok((id(0)?, row.get(1)?, id(2)?))
        });
        Ok(rows.unwrap().map(|row| row.unwrap()).collect())
    }

    #[test]
    fn a_run_that_leaves_takes_no_other_along() {
        let many = |job, order_at, runs: std::ops::Range<u128>| {
            runs.map(move |run| (job, order_at, run)).collect::<Vec<Short>>()
        };
        let of = |parts: &[&[Short]]| parts.concat();
        let all = many(1, 7, 0..4 * PIECE as u128);
        let without = |hole: u128| {
            all.iter().copied().filter(|(.., run)| *run != hole).collect::<Vec<Short>>()
        };
        let backwards: Vec<Short> = all.iter().rev().copied().collect();
        for (name, listed, leaving, expected) in [
            ("none", all.clone(), vec![], all.clone()),
            ("all", all.clone(), all.clone(), vec![]),
            ("in another order", all.clone(), backwards, vec![]),
            ("one of many", all.clone(), many(1, 7, 3..4), without(3)),
            ("all but one", all.clone(), without(70), many(1, 7, 70..71)),
            ("all but the first", all.clone(), without(0), many(1, 7, 0..1)),
            (
                "two far apart",
                many(1, 7, 0..9),
                of(&[&many(1, 7, 0..1), &many(1, 7, 8..9)]),
                many(1, 7, 1..8),
            ),
            (
                "of another place",
                of(&[&many(1, 7, 0..9), &many(1, 8, 0..9)]),
                many(1, 8, 0..9),
                many(1, 7, 0..9),
            ),
            (
                "of another job",
                of(&[&many(1, 7, 0..9), &many(2, 7, 0..9)]),
                many(1, 7, 0..9),
                many(2, 7, 0..9),
            ),
            (
                "of both",
                of(&[&many(1, 7, 0..9), &many(2, 7, 0..9)]),
                of(&[&many(1, 7, 0..5), &many(2, 7, 4..9)]),
                of(&[&many(1, 7, 5..9), &many(2, 7, 0..4)]),
            ),
        ] {
            assert_eq!(left(&listed, &leaving).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn who_is_not_listed_is_told_of() {
        let two: [Short; 2] = [(1, 7, 0), (1, 7, 2)];
        for leaving in [[(1, 7, 0), (1, 7, 1)], [(1, 7, 2), (1, 7, 3)], [(1, 7, 0), (1, 8, 2)]] {
            let error = left(&two, &leaving).unwrap_err().to_string();
            assert!(error.contains("is held and is not there"), "{error}");
        }
    }
}
