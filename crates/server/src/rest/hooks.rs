//! Hooks: made, shown, rotated, removed.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::access::Deed;
use domain::hook::{HookBody, HookScheme, HookSecret, RATE_DEFAULT};
use domain::object::{Object, ObjectKind};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::find;
use super::objects::{self, Fresh, Kept, body_of};
use super::resource::{self, Resource, ResourceDocs};
use crate::actor::Actor;
use crate::app::App;
use crate::body::Body;
use crate::condition::{Condition, etag};
use crate::problem::{ErrorBody, Problem, Result};

const KIND: ObjectKind = ObjectKind::Hook;

/// How a delivery proves that its sender knows the secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HookSchemeName {
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    #[default]
    Standard,
    /// `X-Hub-Signature-256`, as GitHub signs.
    Github,
    /// The secret itself, in `Authorization: Bearer`.
    Token,
}

impl From<HookSchemeName> for HookScheme {
    fn from(name: HookSchemeName) -> Self {
        match name {
            HookSchemeName::Standard => HookScheme::Standard,
            HookSchemeName::Github => HookScheme::Github,
            HookSchemeName::Token => HookScheme::Token,
        }
    }
}

impl From<HookScheme> for HookSchemeName {
    fn from(scheme: HookScheme) -> Self {
        match scheme {
            HookScheme::Standard => HookSchemeName::Standard,
            HookScheme::Github => HookSchemeName::Github,
            HookScheme::Token => HookSchemeName::Token,
        }
    }
}

/// A hook.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HookSpec {
    /// Unique among the hooks of the tenant.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        example = "github-push"
    )]
    pub name: String,
    /// The name or id of the job that it triggers.
    #[schema(example = "deploy")]
    pub job: String,
    /// How deliveries are checked; it stays what it was made with.
    #[serde(default)]
    #[schema(required = false)]
    pub scheme: HookSchemeName,
    /// Where parameters are in the body of a delivery: JSON pointers by name, empty for the whole
    /// body.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub parameters: BTreeMap<String, String>,
    /// How many deliveries it accepts in a second; 10 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1_000)]
    pub requests_per_second: Option<u32>,
    /// Whether it refuses every delivery.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub disabled: bool,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The version that a change is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}

/// A hook as it is shown.
#[derive(Debug, Serialize, ToSchema)]
pub struct HookView {
    /// Its identity.
    pub hook_id: Uuid,
    /// Its name.
    pub name: String,
    /// The path of its address.
    #[schema(example = "/v1/hooks/018f2d2e-0000-7000-8000-000000000000")]
    pub path: String,
    /// The id of the job that it triggers.
    pub job: String,
    /// How deliveries are checked.
    pub scheme: HookSchemeName,
    /// Where parameters are in the body of a delivery.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub parameters: BTreeMap<String, String>,
    /// How many deliveries it accepts in a second.
    pub requests_per_second: u32,
    /// Whether it refuses every delivery.
    pub disabled: bool,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The user with whose rights it triggers runs.
    pub created_by: Uuid,
    /// Until when the secret before the present one is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_secret_until: Option<Timestamp>,
    /// The secret: only where it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Grows with every change.
    pub version: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

impl Kept for HookBody {
    fn sealed(&self) -> Vec<&str> {
        self.secrets.iter().map(|secret| secret.name.as_str()).collect()
    }
}

fn view(object: &Object, now: Timestamp) -> Result<HookView> {
    let body: HookBody = body_of(object)?;
    let old = body.accepted_secrets(now).find_map(|secret| secret.until);
    Ok(HookView {
        hook_id: object.id.0,
        name: object.name.clone(),
        path: format!("/v1/hooks/{}", object.id),
        job: body.job.to_string(),
        scheme: body.scheme.into(),
        parameters: body.parameters,
        requests_per_second: body.requests_per_second,
        disabled: body.disabled,
        description: body.description,
        created_by: body.user.0,
        old_secret_until: old,
        secret: None,
        version: object.version,
        created_at: object.created_at,
        updated_at: object.changed_at,
    })
}

/// A new secret: 32 random bytes.
fn new_secret(app: &App, scheme: HookScheme) -> String {
    let bytes = [(app.random)().to_be_bytes(), (app.random)().to_be_bytes()].concat();
    match scheme {
        HookScheme::Standard => format!("whsec_{}", STANDARD.encode(bytes)),
        HookScheme::Github | HookScheme::Token => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
    }
}

/// The body of a new hook, its secret, and the secret to be sealed.
async fn new_body(app: &App, actor: &Actor, spec: &HookSpec) -> Result<(HookBody, String, Fresh)> {
    let job = find::job(app, actor, &spec.job).await?;
    let scheme = HookScheme::from(spec.scheme);
    let secret = new_secret(app, scheme);
    let fresh = Fresh::new(app, secret.clone());
    let body = HookBody {
        job: job.id,
        user: actor.user,
        scheme,
        secrets: vec![HookSecret { name: fresh.name.clone(), until: None }],
        parameters: spec.parameters.clone(),
        requests_per_second: spec.requests_per_second.unwrap_or(RATE_DEFAULT),
        disabled: spec.disabled,
        description: spec.description.clone(),
    };
    body.check().map_err(|(field, problem)| Problem::invalid(field, problem))?;
    Ok((body, secret, fresh))
}

/// Makes a hook; answers with its secret.
pub(crate) async fn make(app: &App, actor: &Actor, spec: HookSpec) -> Result<(Object, HookView)> {
    actor.may(Deed::ChangeAccess)?;
    let (body, secret, fresh) = new_body(app, actor, &spec).await?;
    let object = objects::create(app, actor, KIND, spec.name, (&body, &[fresh])).await?;
    let shown = HookView { secret: Some(secret), ..view(&object, app.now())? };
    Ok((object, shown))
}

/// Gives a hook another secret; the present one is accepted for another day.
pub(crate) async fn renew(app: &App, actor: &Actor, old: Object) -> Result<HookView> {
    actor.may(Deed::ChangeAccess)?;
    let mut body: HookBody = body_of(&old)?;
    let secret = new_secret(app, body.scheme);
    let fresh = Fresh::new(app, secret.clone());
    body.rotate(fresh.name.clone(), app.now());
    let name = old.name.clone();
    let object = objects::change(app, actor, old, name, (&body, &[fresh]), Condition::None).await?;
    Ok(HookView { secret: Some(secret), ..view(&object, app.now())? })
}

/// Hooks as a resource. They are created by [`create`], which shows the secret.
pub(crate) struct Hooks;

impl Resource for Hooks {
    const KIND: ObjectKind = KIND;
    const DOCS: ResourceDocs = ResourceDocs {
        path: "/v1/hooks",
        parameter: "hook",
        tag: "hooks",
        word: "hook",
        ids: ("hook", "hooks"),
        get_id: "get_hook",
        is_paged: false,
        create: None,
        list: "Lists hooks by name.",
        get: "Shows a hook, without its secret.",
        replace: None,
        patch: Some("Changes some fields of a hook (RFC 7396)."),
        delete: "Removes a hook: its address answers as if it had never been.",
    };
    type Spec = HookSpec;
    type Body = HookBody;
    type View = HookView;

    fn name_and_version(spec: &HookSpec) -> (&str, Option<u32>) {
        (&spec.name, spec.version)
    }

    fn spec(object: &Object) -> Result<HookSpec> {
        let body: HookBody = body_of(object)?;
        Ok(HookSpec {
            name: object.name.clone(),
            job: body.job.to_string(),
            scheme: body.scheme.into(),
            parameters: body.parameters,
            requests_per_second: Some(body.requests_per_second),
            disabled: body.disabled,
            description: body.description,
            version: None,
        })
    }

    /// The scheme of a hook stays; the user who changes a hook answers for what it triggers.
    async fn body(
        app: &App,
        actor: &Actor,
        spec: &HookSpec,
        old: Option<HookBody>,
    ) -> Result<(HookBody, Vec<Fresh>)> {
        let Some(before) = old else {
            let (body, _, fresh) = new_body(app, actor, spec).await?;
            return Ok((body, vec![fresh]));
        };
        if HookScheme::from(spec.scheme) != before.scheme {
            let text = "stays what the hook was made with; make another hook";
            return Err(Problem::invalid("scheme", text));
        }
        let job = match spec.job.parse() == Ok(before.job) {
            true => before.job,
            false => find::job(app, actor, &spec.job).await?.id,
        };
        let body = HookBody {
            job,
            user: actor.user,
            parameters: spec.parameters.clone(),
            requests_per_second: spec.requests_per_second.unwrap_or(RATE_DEFAULT),
            disabled: spec.disabled,
            description: spec.description.clone(),
            ..before
        };
        body.check().map_err(|(field, problem)| Problem::invalid(field, problem))?;
        Ok((body, Vec::new()))
    }

    async fn views(app: &App, _: &Actor, objects: &[Object]) -> Result<Vec<HookView>> {
        objects.iter().map(|object| view(object, app.now())).collect()
    }
}

/// A secret is shown once: the answer is nothing to keep.
const NO_STORE: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

/// Makes a hook. Its secret is in the answer and is not shown again.
#[utoipa::path(
    post, path = "/v1/hooks", operation_id = "create_hook", tag = "hooks", request_body = HookSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body give the same answer for a day.")),
    responses((status = 201, body = HookView), (status = 404, body = ErrorBody))
)]
pub(crate) async fn create(
    State(app): State<App>,
    actor: Actor,
    Body(spec): Body<HookSpec>,
) -> Result<Response> {
    let (object, shown) = make(&app, &actor, spec).await?;
    Ok((NO_STORE, objects::created(&object, "/v1/hooks", shown)).into_response())
}

/// Gives a hook a new secret, which is in the answer. The old one is accepted for another day.
#[utoipa::path(
    post, path = "/v1/hooks/{hook}/rotate", operation_id = "rotate_hook", tag = "hooks",
    params(("hook" = String, Path, description = "The hook's name or id.")),
    responses((status = 200, body = HookView), (status = 409, body = ErrorBody))
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    actor: Actor,
    Path(hook): Path<String>,
) -> Result<Response> {
    let object = resource::find::<Hooks>(&app, &actor, &hook).await?;
    let shown = renew(&app, &actor, object).await?;
    Ok((NO_STORE, [etag(shown.version)], Json(shown)).into_response())
}
