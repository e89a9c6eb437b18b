//! Which partitions history should have: a decision about ranges of ids and a time, without IO.

use domain::id::RunId;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

const DAY: i64 = 24 * 60 * 60 * 1_000;

/// How far ahead there must be partitions, in milliseconds: nodes that are down for a day find one
/// when they come back.
const AHEAD: i64 = DAY + DAY / 2;

/// A partition is dropped when its last nominal time is this much older than it has to be: the last
/// runs to begin have mostly ended by then.
const GRACE: i64 = DAY / 24;

/// A partition that is larger cannot be cut in two quickly enough: its rows are read again while
/// nothing else can be.
const CUT_BYTES_MAX: i64 = 256 << 20;

/// Remainders of old partitions are rewritten up to this size, to keep partitions few. That is
/// about a tenth of the rows that may be written at a time.
const RESTS_BYTES_MAX: i64 = 4 << 20;

/// Maximum number of partitions that are merged at a time.
const MERGED_MAX: usize = 8;

/// Retention that is shorter is not left waiting for a whole partition.
const WAIT_AGE_MIN: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A partition of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// The table is `history_<number>`.
    pub number: i32,
    /// Its first id.
    pub first: Uuid,
    /// The first id of the next partition.
    pub until: Uuid,
    /// Whether its rows are pruned one by one.
    pub row_by_row: bool,
    /// Its size on disk.
    pub bytes: i64,
    /// About how many rows it has.
    pub rows: i64,
}

impl Range {
    /// The ids after the last partition are not bounded.
    pub const LAST: Uuid = Uuid::max();

    /// Its length in milliseconds.
    fn length(&self) -> i64 {
        milliseconds(self.until) - milliseconds(self.first)
    }

    fn contains(&self, bound: Uuid) -> bool {
        self.first < bound && bound < self.until
    }

    /// Whether nothing that it was made for can be younger than `before`.
    fn is_over(&self, before: Timestamp) -> bool {
        milliseconds(self.until).saturating_add(GRACE) <= before.as_millisecond()
    }
}

/// The time inside an id.
fn milliseconds(id: Uuid) -> i64 {
    (id.as_u128() >> 80) as i64
}

/// No run of this or a later millisecond is before this id, and none of an earlier one behind it.
fn bound(ms: i64) -> Uuid {
    Uuid::from_u128((ms.max(0) as u128) << 80)
}

/// How long partitions are for a retention: so that there are about six of them, because every
/// statement about history locks them all.
pub(super) fn length_for(retention: SignedDuration) -> i64 {
    match retention.as_hours() / 24 {
        ..=8 => DAY,
        9..=60 => 7 * DAY,
        _ => 30 * DAY,
    }
}

/// The length of the partitions that there are, for a store that does not know the retention yet.
pub(super) fn length_of(ranges: &[Range]) -> i64 {
    let newest = ranges.iter().rev().find(|range| !range.row_by_row && range.until < Range::LAST);
    let length = newest.map_or(7 * DAY, Range::length);
    if length <= DAY {
        DAY
    } else if length <= 7 * DAY {
        7 * DAY
    } else {
        30 * DAY
    }
}

/// A partition that should be several, and where they begin. The first one of them keeps its rows.
pub(super) fn cut(ranges: &[Range], now: Timestamp, length: i64) -> Option<(&Range, Vec<Uuid>)> {
    let now = now.as_millisecond();
    let (first, last) = (now.div_euclid(length), (now + AHEAD).div_euclid(length) + 1);
    let bounds: Vec<Uuid> = (first..=last).map(|nth| bound(nth * length)).collect();
    let cut = |range: &Range| -> Vec<Uuid> {
        bounds.iter().copied().filter(|bound| range.contains(*bound)).collect()
    };
    // Partitions of the past stay as they are.
    let range = ranges.iter().filter(|range| milliseconds(range.until) > now).find(|range| {
        range.length() > length && range.bytes <= CUT_BYTES_MAX && !cut(range).is_empty()
    })?;
    Some((range, cut(range)))
}

/// Neighbouring partitions to be merged, with their rows that have to stay: the other rows are old.
/// Remainders of partitions before them are merged as well.
pub(super) fn merge(ranges: &[Range], before: Timestamp) -> Option<&[Range]> {
    let is_whole = |range: &&Range| !range.row_by_row && range.is_over(before);
    let Some(whole) = ranges.iter().position(|range| is_whole(&range)) else {
        let is_rest = |range: &Range| range.row_by_row && 2 * range.bytes <= RESTS_BYTES_MAX;
        let pair = ranges.windows(2).position(|pair| pair.iter().all(is_rest))?;
        return Some(&ranges[pair..pair + 2]);
    };
    let mut bytes = 0;
    let rests = ranges[..whole].iter().rev().take_while(|range| {
        bytes += range.bytes;
        range.row_by_row && bytes <= RESTS_BYTES_MAX
    });
    let start = whole - rests.count();
    let wholes = ranges[whole..].iter().take_while(is_whole).take(MERGED_MAX);
    Some(&ranges[start..whole + wholes.count()])
}

/// The partitions that are pruned row by row: old ones that were emptied but for what stays, and
/// others whose rows are so few that it is not worth waiting until all of them are old.
pub(super) fn row_by_row(
    ranges: &[Range],
    newest: RunId,
    retention: SignedDuration,
    small: i64,
) -> (Vec<Uuid>, Vec<Uuid>) {
    let is_few = |range: &&Range| {
        range.row_by_row
            || range.bytes <= small
            || retention < WAIT_AGE_MIN
            // It was made for a gap, and may not be over in years.
            || range.length() > 2 * length_for(retention)
    };
    let old = ranges.iter().filter(|range| range.first < newest.0);
    old.filter(is_few).map(|range| (range.first, range.until)).unzip()
}

#[cfg(test)]
mod tests;
