//! Who asks, and how that is found out.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use domain::audit::{Event, Kind};
use domain::id::TenantId;
use engine::as_author;
use serde_json::json;

use crate::app::App;
use crate::key::{Key, KeyHash};
use crate::limit::{Caller, KeyId, Limits};
use crate::problem::{Code, Problem};

/// Whoever sent a request, after their key was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Their name.
    pub name: String,
    /// Whose jobs they see.
    pub tenant: TenantId,
}

impl Actor {
    /// What the audit says when they were refused.
    fn denied(&self, details: String) -> Event {
        Event {
            tenant: self.tenant,
            actor: self.name.clone(),
            kind: Kind::Denied,
            job: None,
            run: None,
            outcome: "DENIED".to_owned(),
            details,
        }
    }
}

/// Knows who has which key.
pub trait Authority: Send + Sync + 'static {
    /// Who has this key; none when nobody does, or not any more.
    fn owner<'a>(
        &'a self,
        key: &'a Key,
    ) -> Pin<Box<dyn Future<Output = Option<Actor>> + Send + 'a>>;
}

/// An authority that knows one key: the administrator's.
pub struct AdminKey(KeyHash);

impl AdminKey {
    /// The authority of this key.
    pub fn new(key: &Key) -> Self {
        AdminKey(key.hash())
    }
}

impl Authority for AdminKey {
    fn owner<'a>(
        &'a self,
        key: &'a Key,
    ) -> Pin<Box<dyn Future<Output = Option<Actor>> + Send + 'a>> {
        let admin = || Actor { name: "admin".into(), tenant: TenantId::DEFAULT };
        Box::pin(async move { self.0.matches(key).then(admin) })
    }
}

/// The key that a request carries.
pub(crate) fn key_of_headers(headers: &HeaderMap) -> Option<Key> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, more) = (values.next()?, values.next());
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    (more.is_none() && scheme.eq_ignore_ascii_case("bearer")).then(|| Key::parse(key.trim()))?
}

/// Who sent a request, and with which key. What was wrong with a key is not told; who has sent too
/// many wrong ones is told to wait.
pub(crate) async fn authenticate(
    app: &App,
    limits: &Limits,
    caller: Option<Caller>,
    headers: &HeaderMap,
) -> Result<(Actor, KeyId), Problem> {
    if let Some(key) = key_of_headers(headers)
        && let Some(actor) = app.authority.owner(&key).await
    {
        return Ok((actor, KeyId(key.id().to_owned())));
    }
    Err(limits.refuse(caller, app.options.failure_rate, app.now()))
}

/// The door: nobody passes without a valid key, and nobody too often.
pub(crate) async fn require_key(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let caller = request.extensions().get::<Caller>().copied();
    let (actor, key) = authenticate(&app, &limits, caller, request.headers()).await?;
    let left = limits.admit(&key, app.options.rate, app.now())?;
    request.extensions_mut().insert(actor.clone());
    let asked = format!("{} {}", request.method(), request.uri().path());
    let mut response = as_author(actor.name.clone(), next.run(request)).await;
    // Whoever was refused has tried: an answer that cannot be recorded is not given.
    let denied = |problem: &&Problem| problem.code == Code::Forbidden;
    if let Some(problem) = response.extensions().get::<Problem>().filter(denied) {
        let details = json!({ "request": asked, "problem": problem.message }).to_string();
        app.scheduler.record(actor.denied(details)).await?;
    }
    if let Some(left) = left {
        left.tell(response.headers_mut());
    }
    Ok(response)
}

impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // A route that was not put behind the door answers nobody.
        parts
            .extensions
            .get::<Actor>()
            .cloned()
            .ok_or_else(|| Problem::new(Code::Internal, "the request was not authenticated"))
    }
}
