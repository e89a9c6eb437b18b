//! The first few rows in an order, among millions.
//!
//! Runs of a job are listed by when they began. All runs of a tenant are not: a store lists them by
//! id, which sorts by the time that a run stands for. A run starts at that time or later, and
//! at an unknown distance: catching up, backfills and queues start old runs today.
//!
//! ```text
//!   by id      ────────▶ seen ········ not seen: stands for an earlier time, may have started late
//!   by end  ◀──────────  ended since the n-th latest start that was seen
//! ```
//!
//! A run that started after a moment also ended after it, or goes on; only clocks may differ. A run
//! that is cancelled between two attempts ends by the store's clock, and its attempts began by
//! those of nodes. So ends are read from a little earlier on. To answer the last `n` starts of a
//! tenant, two walks take turns: one over the ids, newest first, and one over everything that ended
//! since the `n`-th latest start that is known. Whichever comes to its end first has proved the
//! answer. Their steps cost about the same, so the answer costs at most twice what the shorter walk
//! does.

use std::collections::HashMap;
use std::sync::Arc;

use domain::id::RunId;
use domain::run::{Outcome, RunState};
use engine::{Cursor, RunFilter, RunView, RunsOf};
use jiff::{SignedDuration, Timestamp};
use query::{Constraint, Order, QueryError, Row, Scan, Value};

use super::asked::Asked;
use super::walk::{Walk, may_begin_since};
use super::{CLOCKS, Reader};
use crate::sys::pages::{ROWS, meets};

/// Ends that are read while a run is: reading a run takes about so much longer.
const ENDS: u32 = 4;

/// The rows that are known to come first.
pub(super) struct Best<'a> {
    pub rows: Vec<Row>,
    wanted: &'a [Constraint],
    order: Order,
    limit: usize,
    /// The runs that were seen, and whether they had ended.
    seen: HashMap<RunId, bool>,
    /// The column that says which run it is.
    run: usize,
}

impl<'a> Best<'a> {
    pub fn new(scan: &'a Scan, order: Order, limit: usize) -> Self {
        let run = scan.table.field("execution_uuid").unwrap_or_default();
        let (rows, seen) = (Vec::new(), HashMap::new());
        Best { rows, wanted: &scan.constraints, order, limit, seen, run }
    }

    /// Takes the rows of runs that were not seen before.
    fn take(&mut self, runs: Vec<RunView>, reader: &mut Reader) -> Result<(), QueryError> {
        reader.look_at_parts(&runs)?;
        for run in runs {
            let (id, over) = (run.id, matches!(run.state, RunState::Ended(_)));
            match self.seen.insert(id, over) {
                Some(true) => continue,
                // It has ended since it was seen.
                Some(false) => {
                    self.rows.retain(|row| row.get(self.run) != Some(&Value::Uuid(id.0)))
                }
                None => {}
            }
            self.rows.extend(reader.rows(run)?.into_iter().filter(|row| meets(row, self.wanted)));
        }
        sort(&mut self.rows, self.order);
        self.rows.truncate(self.limit);
        Ok(())
    }

    /// The sort key of the last row within the limit: rows below it are not among the first.
    fn bound(&self) -> Option<i64> {
        let last = self.rows.get(self.limit.checked_sub(1)?)?;
        Some(key(last, self.order))
    }

    /// Rows that a first look reads.
    fn size(&self) -> u32 {
        u32::try_from(self.limit).unwrap_or(ROWS).saturating_add(1).clamp(2, ROWS)
    }
}

/// The sort key of a row: NULL sorts before all values, or after them.
fn key(row: &Row, order: Order) -> i64 {
    match row.get(order.field) {
        Some(Value::Int(ms)) => *ms,
        _ if order.nulls_first => i64::MAX,
        _ => i64::MIN,
    }
}

pub(super) fn sort(rows: &mut [Row], order: Order) {
    rows.sort_by_key(|row| std::cmp::Reverse(key(row, order)));
}

impl Reader {
    /// The attempts that began last, of one user.
    pub(super) fn latest_starts(
        &mut self,
        asked: &Asked,
        of: RunsOf,
        best: &mut Best<'_>,
    ) -> Result<(), QueryError> {
        // Live runs have no end by which they could be found.
        if let Some(live) = asked.live(of) {
            let mut walk = Walk::ids(live, ROWS);
            while best.bound() != Some(i64::MAX)
                && let Some(runs) = walk.next(&self.sys)?
            {
                best.take(runs, self)?;
            }
        }
        let RunsOf::Job(job) = of else {
            if best.order.nulls_first && !asked.begun {
                self.without_start(asked, of, best)?;
            }
            return self.in_turns(asked, of, best);
        };
        let Some(filter) = asked.ends(job) else { return Ok(()) };
        let (first, size) = (asked.first_start(), best.size());
        if asked.begun {
            let walk = Walk::starts(filter, Some(first), size).since(asked.starts.0);
            return self.by_start(walk, best);
        }
        if best.order.nulls_first {
            return self.by_start(Walk::starts(filter, None, size), best);
        }
        self.by_start(Walk::starts(filter.clone(), Some(first), size), best)?;
        // Nothing comes last.
        if best.rows.len() < best.limit {
            self.by_start(Walk::starts(filter, None, size), best)?;
        }
        Ok(())
    }

    /// Ended runs of all users that never began.
    fn without_start(
        &mut self,
        asked: &Asked,
        of: RunsOf,
        best: &mut Best<'_>,
    ) -> Result<(), QueryError> {
        for outcome in [Outcome::Skipped, Outcome::Missed, Outcome::Cancelled] {
            if !asked.lets_end(outcome, 0) {
                continue;
            }
            for list in asked.lists(of) {
                let states = vec![RunState::Ended(outcome)];
                let mut walk = Walk::ids(RunFilter { states, ..list }, best.size());
                while best.bound() != Some(i64::MAX)
                    && let Some(runs) = walk.next(&self.sys)?
                {
                    best.take(runs, self)?;
                    walk.size = walk.size.saturating_mul(2).min(ROWS);
                }
            }
        }
        Ok(())
    }

    /// Follows starts until no other can be among the first. A run stands where its last attempt
    /// began; where clocks differ, an earlier attempt may have begun after that, and is found only
    /// if the run is among those that are read.
    fn by_start(&mut self, mut walk: Walk, best: &mut Best<'_>) -> Result<(), QueryError> {
        while let Some(runs) = walk.next(&self.sys)? {
            best.take(runs, self)?;
            let place = walk.place().map(|place| match place.began {
                Some(began) => began.as_millisecond(),
                None if best.order.nulls_first => i64::MAX,
                None => i64::MIN,
            });
            if best.bound().zip(place).is_some_and(|(bound, place)| place <= bound) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The attempts that began last, of all users: by id and by end.
    fn in_turns(
        &mut self,
        asked: &Asked,
        of: RunsOf,
        best: &mut Best<'_>,
    ) -> Result<(), QueryError> {
        let mut walks: Vec<Walk> =
            asked.lists_by_state(of).into_iter().map(|list| Walk::ids(list, best.size())).collect();
        if asked.retried {
            walks.push(Walk::retried(best.size()));
        }
        let since = asked.starts.0.map(|since| since.as_millisecond());
        let mut ends: Option<Cursor> = None;
        for mut walk in walks {
            while best.bound() != Some(i64::MAX)
                && let Some(runs) = walk.next(&self.sys)?
            {
                best.take(runs, self)?;
                let Some(bound) = best.bound().max(since) else { continue };
                let bound = from_ms(bound);
                let after = ends.take().unwrap_or_else(|| {
                    Cursor::from(bound.saturating_sub(CLOCKS).unwrap_or(Timestamp::MIN))
                });
                match self.ended(asked, (after, ENDS * walk.size), bound, best)? {
                    Some(next) => ends = Some(next),
                    None => return Ok(()),
                }
                walk.size = walk.size.saturating_mul(2).min(ROWS);
            }
        }
        Ok(())
    }

    /// Reads a page of what ended after the cursor, looks at those runs that may have begun at a
    /// time or later, and answers where to go on.
    fn ended(
        &mut self,
        asked: &Asked,
        (after, look): (Cursor, u32),
        since: Timestamp,
        best: &mut Best<'_>,
    ) -> Result<Option<Cursor>, QueryError> {
        let until = self.sys.app.now().saturating_add(SignedDuration::from_hours(24));
        let until = until.unwrap_or(Timestamp::MAX);
        let engine = Arc::clone(&self.sys.app.engine);
        let (ended, next) = self.sys.ask(engine.by(&self.sys.actor).ended(after, until, look))?;
        for end in ended {
            if may_begin_since(&end, since)
                && asked.lets_end(end.outcome, end.attempts)
                && best.seen.get(&end.id) != Some(&true)
            {
                let run = self.run(end.id)?;
                best.take(run.into_iter().collect(), self)?;
            }
        }
        Ok(next)
    }

    /// The attempts of the latest times, of one user.
    pub(super) fn latest_times(
        &mut self,
        asked: &Asked,
        of: RunsOf,
        best: &mut Best<'_>,
    ) -> Result<(), QueryError> {
        // An attempt that is asked for may be one of a run of any state.
        let states = if asked.retried { Vec::new() } else { asked.states.clone() };
        for list in asked.lists(of) {
            let mut walk = Walk::ids(RunFilter { states: states.clone(), ..list }, best.size());
            while let Some(runs) = walk.next(&self.sys)? {
                let last = runs.last().map(|run| run.id.time().as_millisecond());
                best.take(runs, self)?;
                // No run stands for a later time than its id says.
                if best.bound().zip(last).is_some_and(|(bound, last)| last <= bound) {
                    break;
                }
                walk.size = walk.size.saturating_mul(2).min(ROWS);
            }
        }
        Ok(())
    }
}

fn from_ms(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MIN)
}
