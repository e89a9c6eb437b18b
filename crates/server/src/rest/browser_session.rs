//! The session of a browser: opened with a password, a key or a login link, kept in a cookie.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use domain::access::Entry;
use engine::EngineError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::session::{Whoami, identity};
use crate::actor::{Actor, Credential, elsewhere};
use crate::app::App;
use crate::body::Body;
use crate::cookie;
use crate::key::Key;
use crate::limit::{Caller, Limits};
use crate::login::Login;
use crate::problem::{ErrorBody, Problem, Result};

/// Credentials that open a browser session: a user and a password, an API key, or the token of the
/// login link that a first start prints.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionBody {
    /// The name of the tenant of `user`; `default` when absent.
    #[serde(default)]
    tenant: Option<String>,
    /// The name of the user.
    #[serde(default)]
    user: Option<String>,
    /// The password of the user.
    #[serde(default)]
    #[schema(write_only)]
    password: Option<String>,
    /// An API key. The session ends when the key does.
    #[serde(default)]
    #[schema(write_only)]
    key: Option<String>,
    /// The token of a login link, which opens one session.
    #[serde(default)]
    #[schema(write_only)]
    login_token: Option<String>,
}

/// The session of a browser.
#[derive(Serialize, ToSchema)]
pub struct SessionView {
    /// The version of the server.
    pub version: &'static str,
    /// The server's clock.
    pub now: Timestamp,
    /// The name of this cluster's environment, from the setting `ui.environment`.
    pub environment: Option<String>,
    /// The logged-in user; null without a session.
    pub identity: Option<Whoami>,
    /// Issuers at which a browser can log in.
    pub logins: Vec<LoginView>,
}

/// An issuer at which a browser can log in.
#[derive(Serialize, ToSchema)]
pub struct LoginView {
    /// Its name.
    pub name: String,
    /// Where the browser goes to log in.
    pub path: String,
}

fn logins(app: &App) -> Vec<LoginView> {
    let names = app.authority.oidc().map(|oidc| oidc.logins()).unwrap_or_default().into_iter();
    let view = |(n, name)| LoginView { name, path: format!("/v1/session/oidc/{n}") };
    names.enumerate().map(view).collect()
}

/// Opens a session: the answer sets a cookie that no script can read, valid for 12 hours after a
/// password or a login link, and as long as the key otherwise. Browsers forget it when they end.
#[utoipa::path(
    post, path = "/v1/session", operation_id = "open_session", tag = "access", security(()), request_body = SessionBody,
    responses(
        (status = 204), (status = 400, body = ErrorBody), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody),
        (status = 413, body = ErrorBody), (status = 415, body = ErrorBody), (status = 422, body = ErrorBody), (status = 429, body = ErrorBody),
    )
)]
pub(crate) async fn open(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    Body(body): Body<SessionBody>,
) -> Result<Response> {
    if headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN) {
        cookie::require_same_origin(&Method::POST, &headers)?;
    }
    let (caller, rate) = (caller.map(|Extension(caller)| caller), app.options.failure_rate);
    limits.try_password(caller, rate, app.now())?;
    let key = match body {
        SessionBody {
            tenant,
            user: Some(user),
            password: Some(password),
            key: None,
            login_token: None,
        } => {
            let tenant = tenant.unwrap_or_else(|| "default".to_owned());
            app.authority.login(Login { tenant, user, password }).await?.key
        }
        SessionBody {
            tenant: None,
            user: None,
            password: None,
            key: Some(key),
            login_token: None,
        } => {
            let key = Key::parse(key.trim()).ok_or_else(Problem::unauthenticated)?;
            app.authority.owner(&key).await?.ok_or_else(Problem::unauthenticated)?;
            key
        }
        SessionBody {
            tenant: None,
            user: None,
            password: None,
            key: None,
            login_token: Some(token),
        } => app.authority.redeem(&token).await?.key,
        _ => {
            let text = "must have either user and password, or key, or login_token";
            return Err(Problem::invalid("", text));
        }
    };
    limits.was_right(caller, rate);
    let cookie = cookie::set(&app, cookie::is_https(&app, &headers), key.reveal()).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Says who is logged in with the cookie of this browser, and where.
#[utoipa::path(
    get, path = "/v1/session", operation_id = "get_session", tag = "access", security(()),
    responses((status = 200, body = SessionView), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody), (status = 429, body = ErrorBody))
)]
pub(crate) async fn show(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
) -> Result<Json<SessionView>> {
    let caller = caller.map(|Extension(caller)| caller);
    let identity = match cookie::credential_in(&app, &headers).await? {
        None => None,
        Some(credential) => {
            cookie::require_same_origin(&Method::GET, &headers)?;
            match credential.owner(&app).await? {
                Some(actor) => {
                    let actor = Actor::from(elsewhere(&app, actor, &headers).await?);
                    Some(identity(&app, &actor).await?)
                }
                None => {
                    // An expired key is no error here; a client that tries many keys is throttled.
                    let refusal = limits.refuse(caller, app.options.failure_rate, app.now());
                    if refusal.code != crate::problem::Code::Unauthenticated {
                        return Err(refusal);
                    }
                    None
                }
            }
        }
    };
    Ok(Json(SessionView {
        version: env!("CARGO_PKG_VERSION"),
        now: app.now(),
        environment: app.options.ui.environment.clone(),
        identity,
        logins: logins(&app),
    }))
}

/// Ends the session of this browser: the key that a login made is deleted, an API key stays.
#[utoipa::path(
    delete, path = "/v1/session", operation_id = "close_session", tag = "access", security(()),
    responses((status = 204), (status = 403, body = ErrorBody))
)]
pub(crate) async fn close(State(app): State<App>, headers: HeaderMap) -> Result<Response> {
    if let Some(credential) = cookie::credential_in(&app, &headers).await? {
        cookie::require_same_origin(&Method::DELETE, &headers)?;
        // A token ends when its issuer said: only the cookie goes.
        if let Credential::Key(key) = credential
            && let Some(actor) = app.authority.owner(&key).await?
            && let Some((kept, _)) = app.engine.node().key(key.id()).await?
            && kept.session
        {
            let entry = Entry::Key((*kept).clone());
            match app.engine.by(&actor).remove_entry(&entry, None).await {
                Ok(()) | Err(EngineError::NotFound(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    for cookie in cookie::clear(&app).await? {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}
