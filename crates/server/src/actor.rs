//! Identity of a caller, and how it is authenticated.

use std::collections::HashSet;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use axum::Extension;
use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use domain::access::{self, Deed, Privilege, Verifier};
use domain::audit::{Event, Kind};
use engine::{Engine, EngineError};
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::admission::{Challenge, SqlLogin};
use crate::app::App;
use crate::closing;
use crate::connection::Connection;
use crate::cookie;
use crate::idempotency;
use crate::key::{Key, KeyHash};
use crate::limit::{self, Caller, Limits, Rate};
use crate::login::{Login, LoginLink, Session, Throttle};
use crate::oidc::Oidc;
use crate::problem::{Code, Problem, Result};
use crate::reads::{Reads, is_long};
use crate::scram::{self, Proof};
use crate::shared_answers::Question;

/// A future behind a pointer, for traits that are used as objects.
pub type Answer<'a, T, E> = Pin<Box<dyn Future<Output = std::result::Result<T, E>> + Send + 'a>>;

/// Where an administrator of the cluster wants to act.
pub(crate) const TENANT: HeaderName = HeaderName::from_static("punctual-tenant");

/// How much of an address the audit keeps of a denied request.
const ASKED_CHARS_MAX: usize = 500;

/// The authenticated sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(Arc<access::Actor>);

impl From<access::Actor> for Actor {
    fn from(actor: access::Actor) -> Self {
        Actor(Arc::new(actor))
    }
}

impl Deref for Actor {
    type Target = access::Actor;

    fn deref(&self) -> &access::Actor {
        &self.0
    }
}

impl Actor {
    /// Refuses what they may not do, where a handler does something that the engine does not see.
    pub(crate) fn may(&self, deed: Deed) -> Result<()> {
        Ok(access::may(&self.0, deed).map_err(EngineError::from)?)
    }
}

/// The audit row of a refusal.
pub(crate) fn denied_event(actor: &access::Actor, details: String) -> Event {
    Event {
        tenant: actor.tenant,
        actor: actor.name.clone(),
        kind: Kind::Denied,
        job: None,
        run: None,
        outcome: "DENIED".to_owned(),
        details,
    }
}

/// Knows who has which key.
pub trait Authority: Send + Sync + 'static {
    /// The owner of a key; none when the key is unknown or revoked.
    fn owner<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<access::Actor>, Problem>;

    /// The actor of a token; none if the token is invalid or grants nothing here.
    fn holder<'a>(&'a self, token: &'a str) -> Answer<'a, Option<access::Actor>, Problem>;

    /// The issuers whose tokens are believed.
    fn oidc(&self) -> Option<&Oidc> {
        None
    }

    /// Makes a key for a user who knows their password.
    fn login(&self, login: Login) -> Answer<'_, Session, Problem>;

    /// Makes a key for the client that presents the token of a login link, once.
    fn redeem<'a>(&'a self, token: &'a str) -> Answer<'a, Session, Problem>;

    /// Changes the password of a user who knows the present one.
    fn change_password<'a>(
        &'a self,
        actor: &'a access::Actor,
        old: String,
        new: String,
    ) -> Answer<'a, (), Problem>;

    /// The challenge for a name at the SQL interface.
    fn challenge<'a>(&'a self, tenant: &'a str, user: &'a str) -> Answer<'a, Challenge, Problem>;

    /// Admits a client whose proof is right; answers also the proof that this is the right
    /// here. None when they have not.
    fn admit<'a>(
        &'a self,
        challenge: &'a Challenge,
        proof: &'a Proof,
    ) -> Answer<'a, Option<(SqlLogin, String)>, Problem>;

    /// The present actor of a login; none once the login is no longer permitted.
    fn actor_of<'a>(&'a self, login: &'a SqlLogin) -> Answer<'a, Option<access::Actor>, Problem>;
}

/// The keys of the store, and the one of the data folder, which is the administrator's.
pub struct Keys {
    pub(crate) admin: Key,
    admin_hash: KeyHash,
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(crate) random: Arc<dyn Fn() -> u128 + Send + Sync>,
    /// The SCRAM verifier of that key, computed at the first SQL login.
    pub(crate) admin_verifier: OnceCell<Box<Verifier>>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) oidc: Option<Oidc>,
    pub(crate) login_link: Mutex<Option<LoginLink>>,
    /// Passwords and keys from before the SQL interface that were prepared for it.
    pub(crate) prepared: Mutex<HashSet<Uuid>>,
}

impl Keys {
    /// The authority of a server whose administrator has this key.
    pub fn new(
        admin: &Key,
        engine: Arc<Engine>,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
        random: Arc<dyn Fn() -> u128 + Send + Sync>,
    ) -> Self {
        Keys {
            admin: admin.clone(),
            admin_hash: admin.hash(),
            engine,
            clock,
            random,
            admin_verifier: OnceCell::new(),
            throttle: Arc::default(),
            login_link: Mutex::default(),
            prepared: Mutex::default(),
            oidc: None,
        }
    }

    /// Believes tokens of some issuers too.
    pub fn with_tokens(self, oidc: Oidc) -> Self {
        Keys { oidc: Some(oidc), ..self }
    }
}

impl Authority for Keys {
    fn owner<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<access::Actor>, Problem> {
        Box::pin(async move {
            let shown = key.hash();
            if self.admin_hash.is(&shown) {
                return Ok(Some(access::Actor::admin()));
            }
            let found = self.engine.node().key(key.id()).await?;
            let Some((kept, standing)) = found else { return Ok(None) };
            let is_valid = KeyHash::from(kept.hash).is(&shown)
                && kept.expires_at.is_none_or(|end| (self.clock)() < end);
            if is_valid && !scram::is_current(kept.scram.as_deref()) {
                let secret = key.reveal().to_owned();
                self.remember(kept.user, kept.id.0, secret, &standing.user.name);
            }
            Ok(is_valid.then(|| standing.actor(Some(&kept))))
        })
    }

    fn holder<'a>(&'a self, token: &'a str) -> Answer<'a, Option<access::Actor>, Problem> {
        Box::pin(async move {
            let Some(oidc) = &self.oidc else { return Ok(None) };
            let Some(checked) = oidc.check(token, (self.clock)()).await else { return Ok(None) };
            let standing = self.engine.node().holder(&checked.holder).await?;
            // Whatever the user was renamed to, the audit names issuer and subject.
            let (until, name) = (Some(checked.until), checked.holder.name);
            Ok(standing.map(|standing| access::Actor { until, name, ..standing.actor(None) }))
        })
    }

    fn oidc(&self) -> Option<&Oidc> {
        self.oidc.as_ref()
    }

    fn login(&self, login: Login) -> Answer<'_, Session, Problem> {
        Box::pin(self.log_in(login))
    }

    fn redeem<'a>(&'a self, token: &'a str) -> Answer<'a, Session, Problem> {
        Box::pin(self.redeem_login_link(token))
    }

    fn change_password<'a>(
        &'a self,
        actor: &'a access::Actor,
        old: String,
        new: String,
    ) -> Answer<'a, (), Problem> {
        Box::pin(self.change_own(actor, old, new))
    }

    fn challenge<'a>(&'a self, tenant: &'a str, user: &'a str) -> Answer<'a, Challenge, Problem> {
        Box::pin(self.challenge(tenant, user))
    }

    fn admit<'a>(
        &'a self,
        challenge: &'a Challenge,
        proof: &'a Proof,
    ) -> Answer<'a, Option<(SqlLogin, String)>, Problem> {
        Box::pin(self.admit(challenge, proof))
    }

    fn actor_of<'a>(&'a self, login: &'a SqlLogin) -> Answer<'a, Option<access::Actor>, Problem> {
        Box::pin(self.actor_of(login))
    }
}

/// Salt of the hashes that are stored of a caller's requests. A reader of the store who lacks the
/// caller's credential cannot test guesses of their contents.
#[derive(Clone, Copy)]
pub(crate) struct Salt(pub [u8; 32]);

/// Credentials of a request.
#[derive(Clone)]
pub(crate) enum Credential {
    /// A key.
    Key(Key),
    /// Something else, which may be a token.
    Token(Arc<str>),
}

impl Credential {
    /// The credential in the `Authorization` header; none if it is absent, repeated or not a bearer
    /// token.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (value, more) = (values.next()?, values.next());
        let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
        if more.is_some() || !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        Some(Credential::parse(text.trim()))
    }

    /// A key, or what may be a token.
    pub(crate) fn parse(text: &str) -> Self {
        Key::parse(text).map_or_else(|| Credential::Token(text.into()), Credential::Key)
    }

    /// The actor of the credential; none if it is invalid or has expired.
    pub(crate) async fn owner(&self, app: &App) -> Result<Option<access::Actor>> {
        match self {
            Credential::Key(key) => app.authority.owner(key).await,
            Credential::Token(token) => app.authority.holder(token).await,
        }
    }

    /// A salt that is computed from the credential, so that a reader of the store cannot compute
    /// it.
    fn salt(&self) -> Salt {
        let text = match self {
            Credential::Key(key) => key.reveal(),
            Credential::Token(token) => token,
        };
        let hash = Sha256::new().chain_update(b"requests of ").chain_update(text);
        Salt(hash.finalize().into())
    }

    /// Under which name its requests are counted: every token of a user is the same.
    fn counted(&self, actor: &access::Actor) -> limit::Asker {
        limit::Asker(match self {
            Credential::Key(key) => key.id().0,
            Credential::Token(_) => actor.user.0,
        })
    }
}

/// Authenticates a request. The error does not say why a key is invalid; a client that has sent too
/// many invalid keys must wait.
pub(crate) async fn authenticate(
    app: &App,
    limits: &Limits,
    caller: Option<Caller>,
    headers: &HeaderMap,
) -> Result<(Credential, access::Actor)> {
    identify(app, limits, caller, Credential::of(headers)).await
}

/// The same, also by the cookie of a browser, where a page of this server sent the request.
async fn authenticate_browser(
    app: &App,
    limits: &Limits,
    caller: Option<Caller>,
    method: &Method,
    headers: &HeaderMap,
) -> Result<(Credential, access::Actor)> {
    let credential = match headers.contains_key(header::AUTHORIZATION) {
        true => Credential::of(headers),
        false => cookie::credential_in(app, headers).await?,
    };
    if credential.is_some() && !headers.contains_key(header::AUTHORIZATION) {
        cookie::require_same_origin(method, headers)?;
    }
    identify(app, limits, caller, credential).await
}

async fn identify(
    app: &App,
    limits: &Limits,
    caller: Option<Caller>,
    credential: Option<Credential>,
) -> Result<(Credential, access::Actor)> {
    if let Some(credential) = credential
        && let Some(actor) = credential.owner(app).await?
    {
        return Ok((credential, actor));
    }
    Err(limits.refuse(caller, app.options.failure_rate, app.now()))
}

/// The actor in the tenant that the request names. Another tenant is there only for administrators
/// of the cluster.
pub(crate) async fn elsewhere(
    app: &App,
    actor: access::Actor,
    headers: &HeaderMap,
) -> Result<access::Actor> {
    let Some(value) = headers.get(&TENANT) else { return Ok(actor) };
    let name = value.to_str().unwrap_or_default();
    let tenant = app.engine.node().tenant_named(name).await?;
    let everywhere = actor.privileges.has(Privilege::AdministerCluster);
    match tenant.filter(|tenant| everywhere || *tenant == actor.tenant) {
        Some(tenant) if tenant == actor.tenant => Ok(actor),
        Some(tenant) => {
            let (run_as, databases, queues) = (Vec::new(), Vec::new(), Vec::new());
            Ok(access::Actor { tenant, run_as, databases, queues, ..actor })
        }
        None => Err(Problem::new(Code::TenantNotFound, format!("there is no tenant {name:?}"))),
    }
}

/// The request rate of a key: the limit of its tenant, or else that of the settings.
pub(crate) fn rate_of(app: &App, actor: &access::Actor) -> Rate {
    let own = actor.requests_per_second;
    own.map_or(app.options.rate, |per_second| Rate { per_second, burst: per_second.max(1) })
}

/// Authentication: a request needs a valid key and must keep to its rate, and a response ends when
/// the key is no longer valid.
pub(crate) async fn require_key(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    Extension(reads): Extension<Arc<Reads>>,
    mut request: Request,
    next: Next,
) -> Result<Response> {
    let caller = request.extensions().get::<Caller>().copied();
    let (method, headers) = (request.method(), request.headers());
    let (credential, actor) = authenticate_browser(&app, &limits, caller, method, headers).await?;
    if let Some(connection) = request.extensions().get::<Connection>() {
        connection.assign_to_actor(&actor);
    }
    let rate = rate_of(&app, &actor);
    let left = limits.admit(&credential.counted(&actor), rate, app.now())?;
    let actor = Actor::from(elsewhere(&app, actor, request.headers()).await?);
    request.extensions_mut().insert(actor.clone());
    if request.headers().contains_key(&idempotency::KEY) {
        request.extensions_mut().insert(credential.salt());
    }
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let question = Question::of(&request, &actor);
    let work = {
        let app = app.clone();
        async move { idempotency::once(&app, request, next).await }
    };
    let answer = async {
        match is_long(&method, route.as_ref().map(MatchedPath::as_str)) {
            true => {
                let _reading = reads.enter(&actor).await?;
                reads.run(work).await
            }
            false => work.await,
        }
    };
    let answered = match question {
        Some(question) => app.shared_answers.share(&app, question, answer).await,
        None => answer.await,
    };
    let mut response = answered.unwrap_or_else(Problem::into_response);
    // A refusal that cannot be recorded is not answered.
    let denied = |problem: &&Problem| problem.code == Code::Forbidden;
    if let Some(problem) = response.extensions().get::<Problem>().filter(denied) {
        let path: String = uri.path().chars().take(ASKED_CHARS_MAX).collect();
        let asked = format!("{method} {path}");
        let details = json!({ "request": asked, "problem": problem.message }).to_string();
        // Where nothing is, everything is the same deed.
        let deed = format!("{method} {}", route.as_ref().map_or("", MatchedPath::as_str));
        app.engine.node().refused(denied_event(&actor, details), &deed).await?;
    }
    if let Some(left) = left {
        left.tell(response.headers_mut());
    }
    Ok(closing::when_revoked(response, app, credential, actor))
}

impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        // A route without authentication is answered with an error.
        parts
            .extensions
            .get::<Actor>()
            .cloned()
            .ok_or_else(|| Problem::new(Code::Internal, "the request was not authenticated"))
    }
}
