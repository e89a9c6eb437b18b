//! The schedule of a job.

use domain::schedule::{GapRule, OverlapRule};

use super::{Clause, ScheduleClause};
use crate::reader::Reader;
use crate::syntax::Result;

const KINDS: [&str; 5] = ["CRON", "AT", "EVERY", "MANUAL", "AFTER"];

pub(super) fn schedule(reader: &mut Reader<'_>) -> Result<Clause> {
    Ok(Clause::Schedule(if reader.eat(&["CRON"]) {
        ScheduleClause::Cron(reader.text("a cron expression in quotes")?)
    } else if reader.eat(&["AT"]) {
        ScheduleClause::At(reader.text("a time in quotes")?)
    } else if reader.eat(&["EVERY"]) {
        every(reader)?
    } else if reader.eat(&["MANUAL"]) {
        ScheduleClause::Manual
    } else if reader.eat(&["AFTER"]) {
        reader.expect(&["DEPENDENCIES"])?;
        ScheduleClause::AfterDependencies
    } else if reader.word_at(0).is_some() || reader.is_done() {
        return Err(reader.unexpected_word("CRON, AT, EVERY, MANUAL or AFTER DEPENDENCIES", KINDS));
    } else {
        // A string alone is a cron expression.
        ScheduleClause::Cron(reader.text("CRON, AT, EVERY or a cron expression in quotes")?)
    }))
}

fn every(reader: &mut Reader<'_>) -> Result<ScheduleClause> {
    let interval = reader.duration()?.value;
    let (mut starts, mut ends) = (None, None);
    loop {
        if starts.is_none() && reader.eat(&["STARTS"]) {
            starts = Some(reader.text("a time in quotes")?);
        } else if ends.is_none() && reader.eat(&["ENDS"]) {
            ends = Some(reader.text("a time in quotes")?);
        } else {
            return Ok(ScheduleClause::Every { interval, starts, ends });
        }
    }
}

pub(super) fn timezone(reader: &mut Reader<'_>) -> Result<Clause> {
    let none = reader.eat_none();
    Ok(Clause::Timezone(if none { None } else { Some(reader.text("a zone in quotes")?.value) }))
}

pub(super) fn gap(reader: &mut Reader<'_>) -> Result<Clause> {
    let words = [
        ("SKIP", Some(GapRule::Skip)),
        ("SHIFT_AFTER", Some(GapRule::ShiftAfter)),
        ("SHIFT_BY_OFFSET", Some(GapRule::ShiftByOffset)),
        ("NONE", None),
    ];
    Ok(Clause::DstGap(reader.one_of(&words)?.value))
}

pub(super) fn fold(reader: &mut Reader<'_>) -> Result<Clause> {
    let words = [
        ("FIRST", Some(OverlapRule::First)),
        ("SECOND", Some(OverlapRule::Second)),
        ("BOTH", Some(OverlapRule::Both)),
        ("NONE", None),
    ];
    Ok(Clause::DstOverlap(reader.one_of(&words)?.value))
}
