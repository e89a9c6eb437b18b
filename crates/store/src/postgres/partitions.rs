//! The partitions of history: made ahead of time, and dropped when they are old.
//!
//! ```text
//!   ids ──▶ ┌─ row by row ─┬─ week ─┬─ week ─┬─ … ─┬─ this week ─┬─ next ─┬─ all that is later ─┐
//!           └──────────────┴────────┴────────┴─────┴─────────────┴────────┴─────────────────────┘
//!                 ◀── what stays of a week      cut where a partition ──▶
//!                     that is old               is needed
//! ```
//!
//! They cover all ids, so every ended run has a partition. Their bounds are in the table
//! `history_ranges`, which changes with them in one transaction, by one process at a time. No other
//! transaction waits for that longer than [`LOCK_TIMEOUT`]: a change that does not get the lock
//! until then tries again later, and history works with the existing partitions
//! (docs/decisions/028-history-partitions.md).

mod plan;

use domain::id::RunId;
use jiff::SignedDuration;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Row, Transaction};
use uuid::Uuid;

use super::Shared;
use super::pipeline::values;
use super::row::{at, us};
use crate::{Result, RetentionCutoff, StoreError};

use plan::Range;

/// Held by the process that changes partitions: "history" in ASCII.
const PARTITION_LOCK: i64 = 0x68_6973_746f_7279;

/// How long a change waits for a lock, and others behind it.
const LOCK_TIMEOUT: &str = "100ms";

/// Maximum number of rows that are moved to another partition while nothing else can be read.
const MOVED_MAX: i64 = 10_000;

/// Maximum number of rows of old partitions that are rewritten. Where more have to stay, the others
/// are deleted one by one.
const KEPT_MAX: i64 = 200_000;

/// Result of a change of partitions.
enum Change {
    /// Partitions are others now; so many rows went with the old ones, about.
    Done(u64),
    /// Another process changes partitions, or has changed them.
    Overtaken,
}

/// Why there was no change.
#[derive(Debug, thiserror::Error)]
enum Unchanged {
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Pool(#[from] deadpool_postgres::PoolError),
}

type Changed = std::result::Result<Change, Unchanged>;

type Asked<T> = std::result::Result<T, tokio_postgres::Error>;

impl Shared {
    /// Makes the partitions that are needed soon, at the start of a store.
    pub(super) async fn make_partitions(&self) {
        let made = async {
            let (ranges, now) = self.ranges().await?;
            match plan::cut(&ranges, now, plan::length_of(&ranges)) {
                Some((range, bounds)) => self.cut(range, &bounds).await,
                None => Ok(Change::Overtaken),
            }
        };
        tell(made.await);
    }

    /// Makes the partitions that are needed soon and drops those that are old. Returns how many
    /// rows went, and the partitions whose rows are to be deleted one by one.
    pub(super) async fn keep_partitions(
        &self,
        cut: &RetentionCutoff,
    ) -> Result<(u64, Vec<Uuid>, Vec<Uuid>)> {
        let (ranges, now) = self.ranges().await?;
        let retention = now.duration_since(cut.before).max(SignedDuration::ZERO);
        if let Some((range, bounds)) = plan::cut(&ranges, now, plan::length_for(retention)) {
            tell(self.cut(range, &bounds).await);
        }
        let gone = match plan::merge(&ranges, cut.before) {
            Some(old) => tell(self.merge(old, cut).await),
            None => 0,
        };
        let (ranges, _) = self.ranges().await?;
        let newest = RunId::last_of(cut.before.max(cut.failed_before));
        let (firsts, untils) = plan::row_by_row(&ranges, newest, retention, self.small_partition);
        Ok((gone, firsts, untils))
    }

    async fn ranges(&self) -> Result<(Vec<Range>, jiff::Timestamp)> {
        let rows = self.query(sql!("history_ranges"), values![]).await?;
        let now = rows.first().map(|row| row.try_get(6)).transpose()?;
        let now = now.ok_or_else(|| StoreError::Unreadable("history has no partition".into()))?;
        Ok((rows.iter().map(range).collect::<Result<_>>()?, at(now)))
    }

    /// Cuts a partition into several. Its table keeps the first of them.
    async fn cut(&self, range: &Range, bounds: &[Uuid]) -> Changed {
        let mut client = self.pool.get().await?;
        let tx = client.transaction().await?;
        if !begin(&tx, &[range]).await? {
            return Ok(Change::Overtaken);
        }
        let Some(bounds) = quick_bounds(&tx, range, bounds).await? else {
            tracing::warn!(
                partition = range.number,
                "a partition of history is too full to be cut"
            );
            return Ok(Change::Overtaken);
        };
        let number = next_number(&tx).await?;
        let ends = bounds.iter().skip(1).copied().chain([range.until]);
        let new: Vec<Range> = bounds
            .iter()
            .zip(ends)
            .zip(number..)
            .map(|((first, until), number)| Range {
                number,
                first: *first,
                until,
                row_by_row: false,
                ..range.clone()
            })
            .collect();
        for part in &new {
            tx.batch_execute(&create(part)).await?;
        }
        let old = Range { until: bounds[0], ..range.clone() };
        let mut script = format!(
            "LOCK TABLE ONLY history IN ACCESS EXCLUSIVE MODE;
             ALTER TABLE history DETACH PARTITION history_{};",
            old.number
        );
        for part in &new {
            script += &format!(
                "INSERT INTO history_{} SELECT * FROM history_{} WHERE {};",
                part.number,
                old.number,
                is_in(part)
            );
        }
        script += &format!("DELETE FROM history_{} WHERE id >= '{}';", old.number, old.until);
        for part in [&old].into_iter().chain(&new) {
            script += &attach(part);
        }
        script += &format!(
            "UPDATE history_ranges SET until = '{}' WHERE number = {};",
            old.until, old.number
        );
        script.extend(new.iter().map(record));
        tx.batch_execute(&script).await?;
        tx.commit().await?;
        tracing::debug!(partitions = new.len(), "history got new partitions");
        Ok(Change::Done(0))
    }

    /// Makes one partition of several, with the rows that have to stay.
    async fn merge(&self, old: &[Range], cut: &RetentionCutoff) -> Changed {
        let mut client = self.pool.get().await?;
        let tx = client.transaction().await?;
        let all: Vec<&Range> = old.iter().collect();
        if !begin(&tx, &all).await? {
            return Ok(Change::Overtaken);
        }
        let number = next_number(&tx).await?;
        let (Some(first), Some(last)) = (old.first(), old.last()) else {
            return Ok(Change::Overtaken);
        };
        let new = Range { number, until: last.until, row_by_row: true, ..first.clone() };
        tx.batch_execute(&create(&new)).await?;
        let mut kept = 0;
        for part in old {
            // Nothing comes to them or changes meanwhile.
            let lock = format!("LOCK TABLE history_{} IN SHARE ROW EXCLUSIVE MODE", part.number);
            tx.batch_execute(&lock).await?;
            let copy = sql!("history_keep").replace("history_old", &table(part));
            let copy = copy.replace("history_new", &table(&new));
            let (before, failed_before) = (us(cut.before), us(cut.failed_before));
            let most = KEPT_MAX + 1 - kept;
            kept += tx.execute(&copy, &[&before, &failed_before, &most]).await?.cast_signed();
            if kept > KEPT_MAX {
                tx.rollback().await?;
                return self.leave_to_rows(&all).await;
            }
        }
        let forgotten = [
            sql!("history_attempts"),
            sql!("history_outputs"),
            sql!("history_acknowledgements"),
            sql!("history_effects"),
        ];
        for forget in forgotten {
            let forget = forget.replace("history_new", &table(&new));
            tx.execute(&forget, &[&new.first, &new.until]).await?;
        }
        let mut script = "LOCK TABLE ONLY history IN ACCESS EXCLUSIVE MODE;".to_owned();
        for part in old {
            script += &format!("ALTER TABLE history DETACH PARTITION history_{};", part.number);
        }
        script += &attach(&new);
        for part in old {
            script += &format!(
                "DROP TABLE history_{0}; DELETE FROM history_ranges WHERE number = {0};",
                part.number
            );
        }
        script += &record(&new);
        tx.batch_execute(&script).await?;
        tx.commit().await?;
        let rows = old.iter().map(|part| part.rows).sum::<i64>();
        tracing::info!(partitions = old.len(), rows, kept, "old history was dropped");
        Ok(Change::Done((rows - kept).max(0).cast_unsigned()))
    }

    /// Too many rows have to stay: the others are deleted row by row.
    async fn leave_to_rows(&self, ranges: &[&Range]) -> Changed {
        let numbers: Vec<i32> = ranges.iter().map(|range| range.number).collect();
        // Partitions whose rows are deleted one by one from now on.
        let sql = "UPDATE history_ranges SET row_by_row = true WHERE number = ANY ($1::integer[])";
        self.query(sql, values![numbers]).await?;
        Ok(Change::Done(0))
    }
}

/// Begins to change partitions, unless another process does or has changed these.
async fn begin(tx: &Transaction<'_>, ranges: &[&Range]) -> Asked<bool> {
    let set = format!("SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'; SET LOCAL statement_timeout = 0");
    tx.batch_execute(&set).await?;
    let lock = "SELECT pg_try_advisory_xact_lock($1)";
    if !tx.query_one(lock, &[&PARTITION_LOCK]).await?.try_get::<_, bool>(0)? {
        return Ok(false);
    }
    for range in ranges {
        let same = "SELECT 1 FROM history_ranges WHERE number = $1 AND first = $2 AND until = $3";
        if tx.query_opt(same, &[&range.number, &range.first, &range.until]).await?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The bounds at which few rows have to move, if there is one.
async fn quick_bounds<'b>(
    tx: &Transaction<'_>,
    range: &Range,
    bounds: &'b [Uuid],
) -> Asked<Option<&'b [Uuid]>> {
    for at in 0..bounds.len() {
        let count = format!(
            "SELECT count(*) FROM (SELECT 1 FROM history_{} WHERE id >= $1 LIMIT $2) AS h",
            range.number
        );
        let moved: i64 =
            tx.query_one(&count, &[&bounds[at], &(MOVED_MAX + 1)]).await?.try_get(0)?;
        if moved <= MOVED_MAX {
            return Ok(Some(&bounds[at..]));
        }
    }
    Ok(None)
}

async fn next_number(tx: &Transaction<'_>) -> Asked<i32> {
    let next = "SELECT max(number) + 1 FROM history_ranges";
    tx.query_one(next, &[]).await?.try_get(0)
}

fn table(range: &Range) -> String {
    format!("history_{}", range.number)
}

/// Whether an id is in a range.
fn is_in(range: &Range) -> String {
    if range.until == Range::LAST {
        format!("id >= '{}'", range.first)
    } else {
        format!("id >= '{}' AND id < '{}'", range.first, range.until)
    }
}

/// A table with the columns and indexes of history. The check is that of the partition, so
/// that the server need not read the rows to see that they fit.
fn create(range: &Range) -> String {
    format!(
        "CREATE TABLE history_{0} (LIKE history INCLUDING ALL, CONSTRAINT history_{0}_ids CHECK ({1}))",
        range.number,
        is_in(range)
    )
}

/// Makes a table a partition.
fn attach(range: &Range) -> String {
    let first = if range.first.is_nil() { "MINVALUE".to_owned() } else { quoted(range.first) };
    let until =
        if range.until == Range::LAST { "MAXVALUE".to_owned() } else { quoted(range.until) };
    format!(
        "ALTER TABLE history ATTACH PARTITION history_{} FOR VALUES FROM ({first}) TO ({until});
         ALTER TABLE history_{} DROP CONSTRAINT IF EXISTS history_{}_ids;",
        range.number, range.number, range.number
    )
}

fn record(range: &Range) -> String {
    format!(
        "INSERT INTO history_ranges (number, first, until, row_by_row)
         VALUES ({}, '{}', '{}', {});",
        range.number, range.first, range.until, range.row_by_row
    )
}

fn quoted(id: Uuid) -> String {
    format!("'{id}'")
}

/// number, first, until, row_by_row, bytes, rows
fn range(row: &Row) -> Result<Range> {
    Ok(Range {
        number: row.try_get(0)?,
        first: row.try_get(1)?,
        until: row.try_get(2)?,
        row_by_row: row.try_get(3)?,
        bytes: row.try_get(4)?,
        rows: row.try_get(5)?,
    })
}

/// Returns how many rows went. History works with the partitions that there are, so a change that
/// was not made is no error.
fn tell(changed: Changed) -> u64 {
    let in_use = [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED];
    match changed {
        Ok(Change::Done(rows)) => return rows,
        Ok(Change::Overtaken) => {}
        Err(Unchanged::Database(error)) if error.code().is_some_and(|it| in_use.contains(it)) => {
            tracing::debug!("partitions of history are in use; they are changed later");
        }
        Err(error) => {
            tracing::warn!(%error, "cannot change the partitions of history; it is tried again");
        }
    }
    0
}
