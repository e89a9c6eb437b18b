//! Verifying a chain of sealed audit rows, and the removal of its old beginning.

use std::fmt;

use jiff::Timestamp;

use super::{Record, Seal};

/// Defect of a chain, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The first number that is not as it was sealed.
    pub number: u64,
    /// The last number that is lost with it; the same when it is one row.
    pub until: u64,
    /// Cause, for the administrator.
    pub problem: String,
}

impl Broken {
    /// One row.
    pub fn row(number: u64, problem: impl Into<String>) -> Self {
        Broken { number, until: number, problem: problem.into() }
    }

    /// Rows that are lost together.
    pub fn rows(number: u64, until: u64, problem: impl Into<String>) -> Self {
        Broken { number, until, problem: problem.into() }
    }
}

/// The end of a chain as an earlier verification printed it, kept where the database's writers do
/// not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptHead {
    /// The row.
    pub seal: Seal,
    /// When the row was written.
    pub at: Option<Timestamp>,
}

impl fmt::Display for KeptHead {
    /// As a verification reads it: `NUMBER:HASH@TIME`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.seal.number)?;
        for byte in self.seal.hash {
            write!(f, "{byte:02x}")?;
        }
        self.at.map_or(Ok(()), |at| write!(f, "@{at}"))
    }
}

/// Checks that rows which are gone were old, by the first row that is still there: the youngest of
/// the old rows is never removed. `anchor` is the last row that was removed. The time of the first
/// row is under its hash, so that it cannot be forged like that of the anchor.
pub fn verify_witness(
    anchor: Seal,
    first_at: Option<Timestamp>,
    cutoff: Timestamp,
) -> Result<(), Broken> {
    if anchor.number == 0 || first_at.is_some_and(|at| at < cutoff) {
        return Ok(());
    }
    let problem = "removed, although the row behind them is not older than the audit retention";
    Err(Broken::rows(1, anchor.number, problem))
}

/// Checks that the beginning of a chain was removed by age: no row that is younger than `cutoff`
/// may be gone. `anchor` is the last row that was removed, `anchor_at` when it was written.
///
/// A writer of the database can forge the anchor and its time, but not a head that was kept
/// elsewhere: the time of the head shows how old the removed rows are.
pub fn verify_cut(
    anchor: Seal,
    anchor_at: Option<Timestamp>,
    known: Option<KeptHead>,
    cutoff: Timestamp,
) -> Result<(), Broken> {
    let known = known.filter(|known| known.seal.number <= anchor.number);
    if let Some(KeptHead { seal, at }) = known {
        if seal.number == anchor.number && seal != anchor {
            return Err(Broken::row(seal.number, "it is not the row that was seen"));
        }
        if seal.number > 0 && at.is_some_and(|at| at >= cutoff) {
            let problem = "removed, although younger than the audit retention";
            return Err(Broken::rows(seal.number, anchor.number, problem));
        }
    }
    if anchor.number > 0 && anchor_at.is_none_or(|at| at >= cutoff) {
        let problem = "removed, although the last of them is younger than the audit retention";
        return Err(Broken::rows(1, anchor.number, problem));
    }
    match known {
        Some(KeptHead { seal, at: None }) if seal.number > 0 => {
            let problem = "removed, and a head without its time does not tell whether by age; \
                           give it as NUMBER:HASH@TIME";
            Err(Broken::rows(seal.number, anchor.number, problem))
        }
        _ => Ok(()),
    }
}

/// Checks rows in the order of their numbers, behind the one before them. Returns where the chain
/// stands after them.
pub fn verify(before: Seal, rows: &[Record]) -> Result<Seal, Broken> {
    let mut last = before;
    for row in rows {
        let expected = row.sealed_behind(last);
        let broken = |problem: &str| Broken::row(last.number + 1, problem);
        match row.seal {
            None => return Err(broken("it is not sealed, and rows behind it are")),
            Some(seal) if seal.number > expected.number => {
                return Err(Broken { until: seal.number - 1, ..broken("missing") });
            }
            Some(seal) if seal.number < expected.number => {
                return Err(broken("its number was used before"));
            }
            Some(seal) if seal.hash != expected.hash => {
                return Err(broken("it was changed, or the row before it was"));
            }
            Some(seal) => last = seal,
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::audit::{Event, Kind};
    use crate::id::{JobId, NodeId, RunId, TenantId};

    fn row(place: i64) -> Record {
        Record {
            place,
            at: Timestamp::from_second(1_800_000_000 + place).unwrap(),
            event: Event {
                tenant: TenantId::DEFAULT,
                actor: "anna".into(),
                kind: Kind::JobModified,
                job: Some(JobId(Uuid::from_u128(1))),
                run: None,
                outcome: "ok".into(),
                details: "{}".into(),
            },
            node: None,
            runs: Vec::new(),
            seal: None,
        }
    }

    fn chain(length: i64) -> Vec<Record> {
        let mut last = Seal::GENESIS;
        (1..=length)
            .map(|place| {
                let mut row = row(place);
                last = row.sealed_behind(last);
                row.seal = Some(last);
                row
            })
            .collect()
    }

    /// A field, and a change of it.
    type Change = (&'static str, fn(&mut Record));

    #[test]
    fn a_chain_is_intact_until_a_row_is_changed() {
        let whole = chain(5);
        assert_eq!(verify(Seal::GENESIS, &whole), Ok(whole[4].seal.unwrap()));
        // Also from the middle, behind the row before.
        assert!(verify(whole[1].seal.unwrap(), &whole[2..]).is_ok());
        let changes: [Change; 10] = [
            ("place", |row| row.place += 100),
            ("tenant", |row| row.event.tenant = TenantId(Uuid::from_u128(9))),
            ("at", |row| row.at = Timestamp::from_second(1).unwrap()),
            ("actor", |row| row.event.actor.push('a')),
            ("kind", |row| row.event.kind = Kind::JobDeleted),
            ("job", |row| row.event.job = None),
            ("run", |row| row.event.run = Some(RunId(Uuid::from_u128(3)))),
            ("node", |row| row.node = Some(NodeId(Uuid::from_u128(3)))),
            ("outcome", |row| row.event.outcome = "denied".into()),
            ("details", |row| row.event.details = "{ }".into()),
        ];
        for (field, change) in changes {
            for at in 0..5 {
                let mut rows = chain(5);
                change(&mut rows[at]);
                let broken = verify(Seal::GENESIS, &rows).unwrap_err();
                assert_eq!(broken.number, at as u64 + 1, "{field}");
            }
        }
        for at in 0..4 {
            let mut rows = chain(5);
            rows.remove(at);
            let missing = Broken::row(at as u64 + 1, "missing");
            assert_eq!(verify(Seal::GENESIS, &rows), Err(missing));
            let mut rows = chain(5);
            let (first, second) = (rows[at].seal, rows[at + 1].seal);
            (rows[at].seal, rows[at + 1].seal) = (second, first);
            rows.swap(at, at + 1);
            assert_eq!(verify(Seal::GENESIS, &rows).unwrap_err().number, at as u64 + 1);
        }
    }

    #[test]
    fn only_old_rows_may_be_gone() {
        let rows = chain(9);
        let seal = |number: usize| rows[number - 1].seal.unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let (old, cutoff, young) = (Some(at(10)), at(20), Some(at(30)));
        let head = |number, at| Some(KeptHead { seal: seal(number), at });
        let other = Some(KeptHead { seal: Seal { number: 5, hash: [7; 32] }, at: old });
        let genesis = Some(KeptHead { seal: Seal::GENESIS, at: None });
        // The anchor's row and time, the head that was kept, and the rows that are lost.
        let table = [
            (0, None, None, None),
            (0, None, genesis, None),
            (0, None, head(5, young), None),
            (5, old, None, None),
            (5, old, genesis, None),
            (5, old, head(5, old), None),
            (5, old, head(3, old), None),
            (5, old, head(7, young), None),
            (5, young, None, Some((1, 5))),
            (5, None, None, Some((1, 5))),
            (5, young, head(7, young), Some((1, 5))),
            // The anchor's time was forged, which the head reveals.
            (5, old, head(5, young), Some((5, 5))),
            (9, old, head(3, young), Some((3, 9))),
            (5, old, other, Some((5, 5))),
            (5, old, head(5, None), Some((5, 5))),
            (5, old, head(2, None), Some((2, 5))),
        ];
        for (anchor, anchor_at, known, lost) in table {
            let anchor = if anchor == 0 { Seal::GENESIS } else { seal(anchor) };
            let found = verify_cut(anchor, anchor_at, known, cutoff);
            let found = found.err().map(|broken| (broken.number, broken.until));
            assert_eq!(found, lost, "{anchor:?} {anchor_at:?} {known:?}");
        }
    }

    #[test]
    fn the_first_row_tells_how_old_the_removed_ones_are() {
        let anchor = chain(3).pop().unwrap().seal.unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        for (anchor, first_at, lost) in [
            (Seal::GENESIS, None, None),
            (Seal::GENESIS, Some(at(30)), None),
            (anchor, Some(at(19)), None),
            (anchor, Some(at(20)), Some((1, 3))),
            // Not even the witness was left.
            (anchor, None, Some((1, 3))),
        ] {
            let found = verify_witness(anchor, first_at, at(20)).err();
            let found = found.map(|broken| (broken.number, broken.until));
            assert_eq!(found, lost, "{anchor:?} {first_at:?}");
        }
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let (mut one, mut two) = (row(1), row(1));
        (one.event.actor, one.event.outcome) = ("ab".into(), "c".into());
        (two.event.actor, two.event.outcome) = ("a".into(), "bc".into());
        assert_ne!(one.canonical(), two.canonical());
    }
}
