//! Channels for alerts: where they are carried to, and what came of it.

use std::str::FromStr;

use axum::Json;
use axum::extract::{OriginalUri, Path, State};
use axum::http::Uri;
use axum::response::Response;
use domain::access::Deed;
use domain::alert::AlertKind;
use domain::id::JobId;
use domain::object::{Object, ObjectKind};
use engine::{DeliveryKey, DeliveryView};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::objects::{self, Fresh, Kept, PageParams, TrialView, body_of};
use super::resource::{Resource, ResourceDocs};
use super::shape::channel::{
    AlertChannelSpec, AlertChannelView, ChannelBody, is_masked, masked, signs,
};
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::page::{self, List};
use crate::problem::{Problem, Result};

const KIND: ObjectKind = ObjectKind::AlertChannel;

/// The longest address.
const URL_BYTES_MAX: usize = 2_000;

fn view(object: &Object) -> Result<AlertChannelView> {
    Ok(AlertChannelView::of(object, body_of(object)?))
}

impl Kept for ChannelBody {
    fn sealed(&self) -> Vec<&str> {
        vec![&self.sealed, &self.sealed_url]
    }
}

/// The body that is stored for a request, and the new values to seal. Fields that the request
/// leaves out stay unchanged.
fn body(
    app: &App,
    spec: &AlertChannelSpec,
    old: Option<&ChannelBody>,
) -> Result<(ChannelBody, Vec<Fresh>)> {
    let mut fresh = Vec::new();
    let sealed_url = match old.filter(|old| old.url == spec.url) {
        Some(old) => old.sealed_url.clone(),
        None if is_masked(&spec.url) => {
            let text = "*** stands for the rest of the address only while it is not changed; send \
                        the whole address";
            return Err(Problem::invalid("url", text));
        }
        None => {
            check_url(&spec.url)?;
            fresh.push(Fresh::new(app, spec.url.clone()));
            fresh[0].name.clone()
        }
    };
    for (i, kind) in spec.kinds.iter().enumerate() {
        if AlertKind::from_name(kind).is_none() {
            let known: Vec<&str> = AlertKind::ALL.iter().map(|kind| kind.name()).collect();
            let text = format!("{kind:?} is not one of {}", known.join(", "));
            return Err(Problem::invalid(format!("kinds[{i}]"), text));
        }
    }
    let sealed = match (&spec.secret, old) {
        (Some(secret), _) if !signs(secret) => {
            let text = "must be whsec_ followed by 24 to 64 bytes in base64";
            return Err(Problem::invalid("secret", text));
        }
        (Some(secret), _) => {
            let secret = Fresh::new(app, secret.clone());
            let name = secret.name.clone();
            fresh.push(secret);
            name
        }
        // A signature made for one place proves nothing at another, and must not.
        (None, Some(old)) if same_place(&old.url, &spec.url) => old.sealed.clone(),
        (None, Some(_)) => {
            return Err(Problem::invalid("secret", "is needed when the url names another place"));
        }
        (None, None) => return Err(Problem::invalid("secret", "is missing")),
    };
    let since = match old {
        Some(old) if old.enabled => old.since,
        _ => app.now(),
    };
    let (url, kinds, enabled) = (masked(&spec.url), spec.kinds.clone(), spec.enabled);
    Ok((ChannelBody { url, sealed_url, sealed, kinds, enabled, since }, fresh))
}

fn check_url(url: &str) -> Result<()> {
    let wrong = || {
        let text = "must be an address such as https://hooks.example.com/punctual, without a user";
        Problem::invalid("url", text)
    };
    let uri = Uri::from_str(url).map_err(|_| wrong())?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    let plain =
        uri.authority().is_some_and(|it| !it.as_str().contains('@') && !it.host().is_empty());
    if known && plain && url.len() <= URL_BYTES_MAX { Ok(()) } else { Err(wrong()) }
}

fn same_place(old: &str, new: &str) -> bool {
    let place = |url: &str| {
        let uri = Uri::from_str(url).ok()?;
        Some((uri.scheme_str()?.to_owned(), uri.authority()?.as_str().to_ascii_lowercase()))
    };
    place(old).is_some() && place(old) == place(new)
}

/// Alert channels as a resource.
pub(crate) struct AlertChannels;

impl Resource for AlertChannels {
    const KIND: ObjectKind = KIND;
    const DOCS: ResourceDocs = ResourceDocs {
        path: "/v1/alert-channels",
        parameter: "name",
        tag: "alerts",
        word: "channel",
        ids: ("alert_channel", "alert_channels"),
        get_id: "get_alert_channel",
        is_paged: true,
        create: Some("Makes a channel for alerts."),
        list: "Lists channels by name.",
        get: "Shows a channel, without its secret and the rest of its address.",
        replace: Some("Replaces a channel. Without a secret it keeps the one that it has."),
        patch: Some("Changes some fields of a channel (RFC 7396)."),
        delete: "Removes a channel, and what is known about its deliveries.",
    };
    type Spec = AlertChannelSpec;
    type Body = ChannelBody;
    type View = AlertChannelView;

    fn name_and_version(spec: &AlertChannelSpec) -> (&str, Option<u32>) {
        (&spec.name, spec.version)
    }

    fn spec(object: &Object) -> Result<AlertChannelSpec> {
        let shown = view(object)?;
        Ok(AlertChannelSpec {
            name: shown.name,
            url: shown.url,
            secret: None,
            kinds: shown.kinds,
            enabled: shown.enabled,
            version: None,
        })
    }

    async fn body(
        app: &App,
        _: &Actor,
        spec: &AlertChannelSpec,
        old: Option<ChannelBody>,
    ) -> Result<(ChannelBody, Vec<Fresh>)> {
        body(app, spec, old.as_ref())
    }

    async fn views(_: &App, _: &Actor, objects: &[Object]) -> Result<Vec<AlertChannelView>> {
        objects.iter().map(view).collect()
    }
}

/// Sends a message of the type `TEST` through a channel, also when it is not enabled.
#[utoipa::path(
    post, path = "/v1/alert-channels/{name}/test", operation_id = "test_alert_channel", tag = "alerts",
    params(("name" = String, Path, description = "The channel's name or id.")),
    responses((status = 200, body = TrialView))
)]
pub(crate) async fn test(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
) -> Result<Json<TrialView>> {
    actor.may(Deed::ChangeAccess)?;
    let object = objects::find(&app, &actor, KIND, &name).await?;
    let trial = app.trials.channel(&object);
    Ok(Json(TrialView::of(&app, &actor, KIND, &object.name, trial).await?))
}

/// The delivery of an alert by a channel.
#[derive(Serialize, ToSchema)]
pub struct AlertDelivery {
    /// The alert, as `webhook-id` names it.
    alert_id: Uuid,
    /// The event.
    #[schema(example = "JOB_MAX_RETRIES_EXCEEDED")]
    kind: &'static str,
    /// When it happened.
    at: Timestamp,
    /// The job that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<Uuid>,
    /// The execution that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_id: Option<Uuid>,
    /// The text for a person.
    text: String,
    /// `DELIVERED`, `WAITING` for another try, or `GIVEN_UP`.
    #[schema(example = "DELIVERED")]
    status: &'static str,
    /// How often it was tried.
    tries: u32,
    /// When it was first tried.
    first_try_at: Timestamp,
    /// When it was last tried.
    last_try_at: Timestamp,
    /// When it will be tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_at: Option<Timestamp>,
    /// When it arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    delivered_at: Option<Timestamp>,
    /// Why the last try failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl AlertDelivery {
    fn of(delivery: DeliveryView) -> Self {
        AlertDelivery {
            alert_id: delivery.id,
            kind: delivery.alert.kind.name(),
            at: delivery.alert.at,
            job_id: Some(delivery.alert.job).filter(|job| *job != JobId::NONE).map(|job| job.0),
            execution_id: delivery.alert.run.map(|run| run.0),
            text: delivery.alert.text,
            status: match (delivery.delivered_at, delivery.next_try_at) {
                (Some(_), _) => "DELIVERED",
                (None, Some(_)) => "WAITING",
                (None, None) => "GIVEN_UP",
            },
            tries: delivery.tries,
            first_try_at: delivery.begun_at,
            last_try_at: delivery.tried_at,
            next_try_at: delivery.next_try_at,
            delivered_at: delivery.delivered_at,
            error: delivery.error,
        }
    }
}

/// Lists what a channel has tried to deliver, newest first.
#[utoipa::path(
    get, path = "/v1/alert-channels/{name}/deliveries", operation_id = "list_deliveries", tag = "alerts",
    params(("name" = String, Path, description = "The channel's name or id."), PageParams),
    responses((status = 200, body = List<AlertDelivery>))
)]
pub(crate) async fn deliveries(
    State(app): State<App>,
    actor: Actor,
    Path(name): Path<String>,
    Params(params): Params<PageParams>,
    OriginalUri(uri): OriginalUri,
) -> Result<Response> {
    let object = objects::find(&app, &actor, KIND, &name).await?;
    let limit = page::limit(params.limit)?;
    let before = page::cursor(params.cursor.as_deref())?.map(|text| key(&text)).transpose()?;
    let found = app.engine.by(&actor).deliveries(object.id, before, limit).await?;
    let next = found.next.map(|(at, id)| format!("{} {id}", at.as_microsecond()));
    let items = found.items.into_iter().map(AlertDelivery::of).collect();
    Ok(List::new(items, next).answer(&uri))
}

fn key(text: &str) -> Result<DeliveryKey> {
    let read = || {
        let (at, id) = text.split_once(' ')?;
        Some((Timestamp::from_microsecond(at.parse().ok()?).ok()?, id.parse().ok()?))
    };
    read().ok_or_else(page::bad_cursor)
}
