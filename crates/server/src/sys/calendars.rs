//! `sys.calendars`, `sys.blackouts` and `sys.pauses`.

use domain::blackout::Blackout;
use domain::calendar::Calendar;
use domain::id::TenantId;
use domain::object::{Object, ObjectKind};
use engine::{Page, PauseView};
use jiff::ToSpan;
use query::{Pages, QueryError, Row, Value};

use super::Sys;
use super::pages::{ROWS, all, maybe, text_of};

pub(super) fn calendars(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let today = jiff::tz::TimeZone::UTC.to_datetime(sys.app.now()).date();
    let row = |object: &Object| -> Row {
        let calendar = Calendar::from_body(&object.body).unwrap_or_default();
        let days: Vec<String> = calendar.days.iter().map(|rule| format!("\"{rule}\"")).collect();
        let next = calendar.days_between(today, today.saturating_add(2.years()), 1);
        vec![
            Value::Uuid(object.id.0),
            Value::text(&object.name),
            Value::text(format!("{{{}}}", days.join(","))),
            text_of(calendar.timezone.as_ref()),
            text_of(next.first().map(ToString::to_string)),
            text_of(calendar.description.as_ref()),
            Value::Int(i64::from(object.version)),
            Value::Time(object.created_at),
            Value::Time(object.changed_at),
        ]
    };
    let (mut rows, mut after): (Vec<Row>, Option<String>) = (Vec::new(), None);
    loop {
        let engine = sys.app.engine.by(&sys.actor);
        let page = engine.list_objects(ObjectKind::Calendar, after.as_deref(), ROWS);
        let Page { items, next } = sys.ask(page)?;
        rows.extend(items.iter().map(row));
        after = next;
        if after.is_none() {
            return Ok(all(rows));
        }
    }
}

fn scope(tenant: TenantId) -> Value {
    Value::text(if tenant == TenantId::CLUSTER { "CLUSTER" } else { "TENANT" })
}

pub(super) fn blackouts(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let found = sys.ask(sys.app.engine.by(&sys.actor).blackouts())?;
    let now = sys.app.now();
    let row = |object: &Object| -> Row {
        let blackout = Blackout::from_body(&object.body).ok();
        let compiled =
            blackout.as_ref().and_then(|it| it.compile(&object.name, &sys.app.zones).ok());
        let next = compiled.as_ref().and_then(|it| it.window_from(now));
        vec![
            Value::Uuid(object.id.0),
            Value::text(&object.name),
            scope(object.tenant),
            Value::Bool(compiled.is_some_and(|it| it.contains(now))),
            maybe(next.map(|(from, _)| from), Value::Time),
            maybe(next.map(|(_, until)| until), Value::Time),
            text_of(blackout.and_then(|it| it.description)),
        ]
    };
    Ok(all(found.iter().map(row).collect()))
}

pub(super) fn pauses(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let found = sys.ask(sys.app.engine.by(&sys.actor).pauses())?;
    let row = |view: &PauseView| -> Row {
        vec![
            scope(view.tenant),
            Value::text(&view.pause.reason),
            Value::text(&view.pause.by),
            Value::Time(view.since),
            maybe(view.pause.until, Value::Time),
            Value::Bool(view.pause.has_ended),
        ]
    };
    Ok(all(found.iter().map(row).collect()))
}
