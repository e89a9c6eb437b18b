//! Status pages: which jobs a page shows, and whether it is public. [`crate::status`] shows them.

use domain::object::{Object, ObjectKind};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::objects::{Fresh, Kept, body_of};
use super::resource::{Resource, ResourceDocs};
use crate::actor::Actor;
use crate::app::App;
use crate::problem::{Problem, Result};

/// The most tags of a page.
const TAGS_MAX: usize = 20;

/// The longest title, in characters.
const TITLE_CHARS_MAX: usize = 100;

/// Definition of a status page.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusPageSpec {
    /// The last part of its address, unique among the status pages of the tenant.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        example = "payments"
    )]
    pub name: String,
    /// The heading of the page.
    #[schema(min_length = 1, max_length = 100)]
    pub title: String,
    /// Jobs with one of these tags are shown: their names, and how and when their last runs ended.
    #[schema(min_items = 1, max_items = 20)]
    pub tags: Vec<String>,
    /// Whether everyone who knows the address may read the page.
    #[serde(default)]
    pub is_public: bool,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A status page as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StatusPageBody {
    pub title: String,
    pub tags: Vec<String>,
    pub is_public: bool,
}

impl Kept for StatusPageBody {
    fn sealed(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// A status page as it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct StatusPageView {
    /// Its identity.
    pub status_page_id: Uuid,
    /// The last part of its address.
    pub name: String,
    /// The heading of the page.
    pub title: String,
    /// Jobs with one of these tags are shown.
    pub tags: Vec<String>,
    /// Whether everyone who knows the address may read the page.
    pub is_public: bool,
    /// The address below that of the server.
    pub path: String,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// Status pages as a resource.
pub(crate) struct StatusPages;

impl Resource for StatusPages {
    const KIND: ObjectKind = ObjectKind::StatusPage;
    const DOCS: ResourceDocs = ResourceDocs {
        path: "/v1/status-pages",
        parameter: "name",
        tag: "server",
        word: "status page",
        ids: ("status_page", "status_pages"),
        get_id: "get_status_page",
        is_paged: true,
        create: Some("Makes a status page. It is not public unless it says so."),
        list: "Lists status pages by name.",
        get: "Shows a status page.",
        replace: None,
        patch: Some("Changes some fields of a status page (RFC 7396)."),
        delete: "Removes a status page.",
    };
    type Spec = StatusPageSpec;
    type Body = StatusPageBody;
    type View = StatusPageView;

    fn name_and_version(spec: &StatusPageSpec) -> (&str, Option<u32>) {
        (&spec.name, spec.version)
    }

    fn spec(object: &Object) -> Result<StatusPageSpec> {
        let StatusPageBody { title, tags, is_public } = body_of(object)?;
        Ok(StatusPageSpec { name: object.name.clone(), title, tags, is_public, version: None })
    }

    async fn body(
        _: &App,
        _: &Actor,
        spec: &StatusPageSpec,
        _: Option<StatusPageBody>,
    ) -> Result<(StatusPageBody, Vec<Fresh>)> {
        let title = spec.title.trim().to_owned();
        if title.is_empty() || title.chars().count() > TITLE_CHARS_MAX {
            let text = format!("must have 1 to {TITLE_CHARS_MAX} characters");
            return Err(Problem::invalid("title", text));
        }
        let tags = spec.tags.clone();
        if tags.is_empty() || tags.len() > TAGS_MAX || tags.iter().any(|tag| tag.trim().is_empty())
        {
            let text = format!("must be 1 to {TAGS_MAX} tags: a page never shows all jobs");
            return Err(Problem::invalid("tags", text));
        }
        Ok((StatusPageBody { title, tags, is_public: spec.is_public }, Vec::new()))
    }

    async fn views(app: &App, actor: &Actor, objects: &[Object]) -> Result<Vec<StatusPageView>> {
        let tenant = super::session::tenant_name(app, actor).await?;
        let view = |object: &Object| {
            let StatusPageBody { title, tags, is_public } = body_of(object)?;
            Ok(StatusPageView {
                status_page_id: object.id.0,
                name: object.name.clone(),
                title,
                tags,
                is_public,
                path: crate::status::path(&tenant, &object.name),
                version: object.version,
                created_at: object.created_at,
                updated_at: object.changed_at,
            })
        };
        objects.iter().map(view).collect()
    }

    async fn after_change(app: &App, _: &Actor) -> Result<()> {
        app.status_pages.forget();
        Ok(())
    }
}
