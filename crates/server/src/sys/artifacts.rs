//! `sys.artifacts`.

use domain::artifact::ArtifactVersion;
use query::{Pages, QueryError, Row, Value};

use super::Sys;
use super::pages::{Made, ROWS, text_of};

/// The versions of the artifacts of the tenant, for an actor with a privilege for artifacts.
pub(super) fn artifacts(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let (sys, mut after, mut is_over) = (sys.clone(), None, false);
    Ok(Box::new(Made(move || {
        if is_over {
            return Ok(None);
        }
        let engine = sys.app.engine.by(&sys.actor);
        let page = sys.ask(engine.list_artifacts(None, after.as_ref(), ROWS))?;
        is_over = page.next.is_none();
        after = page.next;
        Ok(Some(page.items.into_iter().map(row).collect()))
    })))
}

fn count(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn row(it: ArtifactVersion) -> Row {
    vec![
        Value::text(&it.name),
        Value::Int(it.version.into()),
        Value::text(it.reference()),
        Value::text(it.archive.digest.to_string()),
        count(it.archive.bytes),
        count(it.archive.unpacked_bytes),
        count(it.archive.entries),
        text_of(serde_json::to_string(&it.labels).ok()),
        Value::Time(it.created_at),
        Value::text(&it.created_by),
    ]
}
