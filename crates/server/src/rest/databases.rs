//! Databases: where SQL jobs work, named over REST or in the settings of the server.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use domain::access::Deed;
use domain::id::TenantId;
use domain::object::{Object, ObjectKind};

use super::objects::{self, Fresh, Kept, TrialView, body_of};
use super::resource::{Resource, ResourceDocs};
use super::shape::database::{DatabaseBody, DatabaseSpec, DatabaseView, masked, unmasked};
use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Code, Problem, Result};

const KIND: ObjectKind = ObjectKind::Database;

/// The longest description.
const DESCRIPTION_CHARS_MAX: usize = 1_000;

fn view(object: &Object) -> Result<DatabaseView> {
    Ok(DatabaseView::of(object, body_of(object)?))
}

impl Kept for DatabaseBody {
    fn sealed(&self) -> Vec<&str> {
        self.sealed.as_deref().into_iter().collect()
    }
}

/// The body that is stored for a request, and the address if it has a new password. A masked
/// password stands for the stored one.
fn body(
    app: &App,
    spec: &DatabaseSpec,
    old: Option<DatabaseBody>,
) -> Result<(DatabaseBody, Vec<Fresh>)> {
    let wrong = |problem: String| Problem::invalid("url", problem);
    let url = unmasked(&spec.url, old.as_ref().map(|old| old.url.as_str())).map_err(wrong)?;
    if let Err(error) = agent::Database::parse_remote(&url) {
        return Err(match error {
            agent::DatabaseError::Bad { field, problem } => Problem::invalid(field, problem),
            error => wrong(error.to_string()),
        });
    }
    let description = spec.description.clone();
    if description.as_ref().is_some_and(|text| text.chars().count() > DESCRIPTION_CHARS_MAX) {
        let text = format!("has at most {DESCRIPTION_CHARS_MAX} characters");
        return Err(Problem::invalid("description", text));
    }
    let shown = masked(&url);
    let kept = old.filter(|old| old.url == url).and_then(|old| old.sealed);
    if kept.is_some() || shown == url {
        return Ok((DatabaseBody { url, sealed: kept, description }, Vec::new()));
    }
    let fresh = Fresh::new(app, url);
    let body = DatabaseBody { url: shown, sealed: Some(fresh.name.clone()), description };
    Ok((body, vec![fresh]))
}

/// The databases of the settings, as far as they are there for the tenant: addresses by name.
fn of_settings<'a>(app: &'a App, actor: &Actor) -> &'a BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    if actor.tenant == TenantId::DEFAULT { &app.options.databases } else { &NONE }
}

/// A name of the settings is theirs: one over REST would never be used.
fn refuse_settings(app: &App, actor: &Actor, name: &str) -> Result<()> {
    if !of_settings(app, actor).contains_key(name) {
        return Ok(());
    }
    let text = format!("the database {name:?} is named in the settings of the server");
    Err(Problem { message: text.clone(), ..Problem::field(Code::AlreadyExists, "name", text) })
}

/// Databases as a resource.
pub(crate) struct Databases;

impl Resource for Databases {
    const KIND: ObjectKind = KIND;
    const DOCS: ResourceDocs = ResourceDocs {
        path: "/v1/databases",
        parameter: "name",
        tag: "databases",
        word: "database",
        ids: ("database", "databases"),
        get_id: "get_database",
        is_paged: true,
        create: Some("Makes a database known to SQL jobs."),
        list: "Lists databases by name, those of the settings among them.",
        get: "Shows a database, without its password.",
        replace: Some(
            "Replaces a database. A url whose password is hidden means the one that is there.",
        ),
        patch: Some("Changes some fields of a database (RFC 7396)."),
        delete: "Removes a database. Jobs that name it fail until another one has its name.",
    };
    type Spec = DatabaseSpec;
    type Body = DatabaseBody;
    type View = DatabaseView;

    fn name_and_version(spec: &DatabaseSpec) -> (&str, Option<u32>) {
        (&spec.name, spec.version)
    }

    fn spec(object: &Object) -> Result<DatabaseSpec> {
        let DatabaseView { name, url, description, .. } = view(object)?;
        Ok(DatabaseSpec { name, url, description, version: None })
    }

    async fn body(
        app: &App,
        actor: &Actor,
        spec: &DatabaseSpec,
        old: Option<DatabaseBody>,
    ) -> Result<(DatabaseBody, Vec<Fresh>)> {
        refuse_settings(app, actor, &spec.name)?;
        body(app, spec, old)
    }

    async fn views(_: &App, _: &Actor, objects: &[Object]) -> Result<Vec<DatabaseView>> {
        objects.iter().map(view).collect()
    }

    async fn page(
        app: &App,
        actor: &Actor,
        after: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<DatabaseView>, Option<String>)> {
        let found = app.engine.by(actor).list_objects(KIND, after, limit).await?;
        let is_after = |name: &str| after.is_none_or(|after| name > after);
        // The page ends where the store's page does; what the settings have behind it comes later.
        let is_before = |name: &str| found.next.as_deref().is_none_or(|next| name <= next);
        let settings = of_settings(app, actor);
        let mut items: Vec<DatabaseView> = settings
            .iter()
            .filter(|(name, _)| is_after(name) && is_before(name))
            .map(|(name, url)| DatabaseView::of_settings(name, url))
            .collect();
        for object in found.items.iter().filter(|it| !settings.contains_key(&it.name)) {
            items.push(view(object)?);
        }
        items.sort_by(|a, b| a.name.cmp(&b.name));
        let more = found.next.is_some() || items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(|last| last.name.clone());
        // A page of nothing but hidden ones still says where to go on.
        Ok((items, next.or(found.next)))
    }

    fn from_settings(app: &App, actor: &Actor, name: &str) -> Option<DatabaseView> {
        let url = of_settings(app, actor).get(name)?;
        Some(DatabaseView::of_settings(name, url))
    }
}

/// Connects to a database as a job would, and says what answered.
#[utoipa::path(
    post, path = "/v1/databases/{name}/test", operation_id = "test_database", tag = "databases",
    params(("name" = String, Path, description = "The database's name or id.")),
    responses((status = 200, body = TrialView))
)]
pub(crate) async fn test(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
) -> Result<Json<TrialView>> {
    actor.may(Deed::ChangeAccess)?;
    let name = match of_settings(&app, &actor).contains_key(&name) {
        true => name,
        false => objects::find(&app, &actor, KIND, &name).await?.name,
    };
    let trial = app.trials.database(actor.tenant, &name);
    Ok(Json(TrialView::of(&app, &actor, KIND, &name, trial).await?))
}
