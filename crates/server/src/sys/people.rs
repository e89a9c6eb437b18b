//! Users, roles, grants, tenants, settings, databases and secrets.

use std::collections::HashMap;

use domain::access::{Awarded, Deed, Entry, Kind, Record, may};
use domain::id::JobId;
use domain::object::ObjectKind;
use domain::secret::Scope;
use engine::Page;
use query::{Pages, QueryError, Row, State, Value};
use uuid::Uuid;

use super::pages::{ROWS, all, maybe, text_of};
use super::{Sys, problem};
use crate::rest::shape::database::{DatabaseBody, masked};

/// All entries of a kind.
fn entries(sys: &Sys, kind: Kind) -> Result<Vec<Record>, QueryError> {
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let engine = sys.app.engine.by(&sys.actor);
        let page = engine.list_entries(kind, None, after.as_deref(), ROWS);
        let Page { items, next } = sys.ask(page)?;
        found.extend(items);
        match next {
            Some(next) => after = Some(next),
            None => return Ok(found),
        }
    }
}

fn kept(record: &Record) -> [Value; 3] {
    [
        Value::Int(i64::from(record.version)),
        Value::Time(record.created_at),
        Value::Time(record.updated_at),
    ]
}

pub(super) fn users(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let row = |record: &Record| {
        let Entry::User(user) = &record.entry else { return None };
        let own = [
            Value::Uuid(user.id.0),
            Value::text(&user.name),
            Value::Bool(user.disabled),
            Value::Bool(user.password.is_some()),
        ];
        Some(own.into_iter().chain(kept(record)).collect::<Row>())
    };
    Ok(all(entries(sys, Kind::User)?.iter().filter_map(row).collect()))
}

pub(super) fn roles(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let row = |record: &Record| {
        let Entry::Role(role) = &record.entry else { return None };
        let own = [
            Value::Uuid(role.id.0),
            Value::text(&role.name),
            text_of(role.description.as_ref()),
            Value::Bool(role.run_as),
        ];
        Some(own.into_iter().chain(kept(record)).collect::<Row>())
    };
    Ok(all(entries(sys, Kind::Role)?.iter().filter_map(row).collect()))
}

pub(super) fn tenants(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let number = |number: Option<u32>| maybe(number, |number| Value::Int(i64::from(number)));
    let row = |record: &Record| {
        let Entry::Tenant(tenant) = &record.entry else { return None };
        let own = [
            Value::Uuid(tenant.id.0),
            Value::text(&tenant.name),
            Value::text(tenant.tier.name()),
            number(tenant.max_jobs),
            number(tenant.max_concurrent),
            number(tenant.requests_per_second),
            Value::Bool(tenant.external_jobs),
            text_of(serde_json::to_string(&tenant.job_defaults).ok()),
        ];
        Some(own.into_iter().chain(kept(record)).collect::<Row>())
    };
    Ok(all(entries(sys, Kind::Tenant)?.iter().filter_map(row).collect()))
}

pub(super) fn grants(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let mut names: HashMap<Uuid, String> = HashMap::new();
    for kind in [Kind::User, Kind::Role] {
        for record in entries(sys, kind)? {
            match record.entry {
                Entry::User(user) => drop(names.insert(user.id.0, user.name)),
                Entry::Role(role) => drop(names.insert(role.id.0, role.name)),
                Entry::Tenant(_) | Entry::Key(_) => {}
            }
        }
    }
    let mut rows = Vec::new();
    let mut after = None;
    loop {
        let engine = sys.app.engine.by(&sys.actor);
        let page = engine.list_awards(None, after, ROWS);
        let Page { items, next } = sys.ask(page)?;
        let texts = sys.ask(engine.grant_texts(&items))?;
        for (award, text) in items.iter().zip(texts) {
            let role = match &award.what {
                Awarded::Role(role) => Some(role.0),
                Awarded::Privilege(_) | Awarded::Database(_) | Awarded::Queue(_) => None,
            };
            rows.push(vec![
                Value::Uuid(award.id()),
                Value::Uuid(award.to),
                text_of(names.get(&award.to)),
                text_of(text),
                maybe(role, Value::Uuid),
                text_of(role.and_then(|role| names.get(&role))),
            ]);
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(all(rows)),
        }
    }
}

pub(super) fn settings(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let settings = sys.ask(sys.app.engine.by(&sys.actor).settings())?;
    let row = |setting: engine::Setting| {
        vec![
            Value::text(&setting.name),
            Value::text(&setting.value),
            Value::Int(i64::from(setting.version)),
            Value::Time(setting.changed_at),
        ]
    };
    Ok(all(settings.into_iter().map(row).collect()))
}

pub(super) fn databases(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let mut rows = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let engine = sys.app.engine.by(&sys.actor);
        let kind = ObjectKind::Database;
        let page = engine.list_objects(kind, after.as_deref(), ROWS);
        let Page { items, next } = sys.ask(page)?;
        for object in items {
            let body: Option<DatabaseBody> = serde_json::from_str(&object.body).ok();
            rows.push(vec![
                Value::Uuid(object.id.0),
                Value::text(&object.name),
                text_of(body.as_ref().map(|body| masked(&body.url))),
                text_of(body.and_then(|body| body.description)),
                Value::Int(i64::from(object.version)),
                Value::Time(object.created_at),
                Value::Time(object.changed_at),
            ]);
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(all(rows)),
        }
    }
}

pub(super) fn job_secrets(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    if let Err(refusal) = may(&sys.actor, Deed::SeeAccess) {
        return Err(problem(engine::EngineError::Refused(refusal).into()));
    }
    let mut rows = Vec::new();
    let mut after: Option<(JobId, String)> = None;
    loop {
        let page = sys.app.secrets.list(Some(sys.actor.tenant), after.as_ref(), ROWS);
        let page = sys.runtime.block_on(page);
        let Page { items, next } =
            page.map_err(|error| QueryError::new(State::Unavailable, error.to_string()))?;
        for secret in items {
            // Passwords of databases and channels are theirs.
            if let Scope::Object(..) = secret.place.scope {
                continue;
            }
            rows.push(vec![
                maybe(secret.place.scope.job(), |job| Value::Uuid(job.0)),
                Value::text(&secret.place.name),
                Value::Null,
                Value::text(secret.place.scope.name()),
                Value::Int(i64::from(secret.version)),
                Value::Time(secret.changed_at),
                Value::text(&secret.changed_by),
            ]);
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(all(rows)),
        }
    }
}
