//! The engine's warnings, as text and as JSON.

use std::io::{self, Write};

use domain::schedule::{CronSchedule, Warning};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Utc, table};

/// Prints one warning a line; two readings of an expression follow side by side.
pub(super) fn print(
    out: &mut dyn Write,
    schedule: &CronSchedule,
    warnings: &[Warning],
) -> io::Result<()> {
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
        if let Warning::DayStepDialect { vixie, other, .. } = warning {
            let date = |dates: &[Timestamp], i: usize| {
                dates.get(i).map_or_else(String::new, |at| table::local_time(schedule, *at))
            };
            let rows =
                (0..vixie.len().max(other.len())).map(|i| vec![date(vixie, i), date(other, i)]);
            table::print(out, "  ", &["HERE", "OTHER DIALECTS"], rows)?;
        }
    }
    Ok(())
}

/// A warning with a stable code, its sentence and what it speaks of.
pub(super) fn to_json(warning: &Warning) -> Value {
    let utc = |dates: &[Timestamp]| dates.iter().copied().map(Utc).collect::<Vec<_>>();
    let mut value = match warning {
        Warning::Gap { first, last, count, transition, .. }
        | Warning::Fold { first, last, count, transition, .. } => json!({
            "first": first.to_string(),
            "last": last.to_string(),
            "count": count,
            "transition": Utc(*transition),
        }),
        Warning::DayStepDialect { field, vixie, other, rewrite } => json!({
            "field": field.name(),
            "here": utc(vixie),
            "other": utc(other),
            "rewrite": rewrite,
        }),
        Warning::FarAway { next } => json!({"next": Utc(*next)}),
        Warning::Never => json!({}),
    };
    value["code"] = code(warning).into();
    value["message"] = warning.to_string().into();
    value
}

fn code(warning: &Warning) -> &'static str {
    match warning {
        Warning::Gap { .. } => "DST_GAP",
        Warning::Fold { .. } => "DST_OVERLAP",
        Warning::DayStepDialect { .. } => "DAY_STEP_DIALECT",
        Warning::FarAway { .. } => "FAR_AWAY",
        Warning::Never => "NEVER",
    }
}
