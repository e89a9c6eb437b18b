//! A browser logs in at an issuer and comes back with a code. Both answers are redirects: a person
//! follows them, not a program.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::body::Params;
use crate::cookie;
use crate::limit::{Caller, Limits};
use crate::oidc::LoginAttempt;
use crate::problem::{Code, ErrorBody, Problem, Result};

/// A token that is longer does not fit into a cookie.
const TOKEN_BYTES_MAX: usize = 3_800;

/// The longest page that a login returns to.
const NEXT_BYTES_MAX: usize = 1_000;

/// Where a login leads.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LoginStartParams {
    /// The page of the dashboard to show afterwards, relative to its start page.
    next: Option<String>,
}

/// Sends the browser to an issuer to log in.
#[utoipa::path(
    get, path = "/v1/session/oidc/{issuer}", operation_id = "start_oidc_login", tag = "access", security(()),
    params(("issuer" = usize, Path, description = "Which issuer, as `GET /v1/session` lists them."), LoginStartParams),
    responses(
        (status = 303), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 429, body = ErrorBody),
    )
)]
pub(crate) async fn start(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    caller: Option<Extension<Caller>>,
    Path(issuer): Path<String>,
    Params(params): Params<LoginStartParams>,
) -> Result<Response> {
    let missing = || Problem::new(Code::NotFound, "there is no login at this address");
    let oidc = app.authority.oidc().ok_or_else(missing)?;
    let issuer: usize = issuer.parse().map_err(|_| missing())?;
    if issuer >= oidc.logins().len() {
        return Err(missing());
    }
    // Each login sends a request to the issuer for an unauthenticated client.
    let caller = caller.map(|Extension(caller)| caller);
    limits.try_password(caller, app.options.failure_rate, app.now())?;
    let random = || format!("{:032x}", (app.random)());
    let attempt = LoginAttempt {
        issuer,
        state: random(),
        nonce: random(),
        verifier: format!("{}{}", random(), random()),
    };
    let address = match oidc.login_address(&attempt).await {
        Ok(address) => address,
        Err(problem) => {
            tracing::warn!(problem, "a login at an issuer could not begin");
            let page = format!("{}login?problem=UNREACHABLE", app.options.ui.base_path);
            return Ok(redirect(&page, Vec::new()));
        }
    };
    limits.was_right(caller, app.options.failure_rate);
    let next = params.next.filter(|next| is_page(next)).unwrap_or_default();
    let LoginAttempt { state, nonce, verifier, .. } = &attempt;
    let kept = format!("{issuer}.{state}.{nonce}.{verifier}.{}", URL_SAFE_NO_PAD.encode(next));
    let cookie = cookie::set_login(&app, oidc.is_https(), &kept).await?;
    Ok(redirect(&address, vec![cookie]))
}

/// Query of the redirect from an issuer.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct LoginCallbackParams {
    /// The nonce of the ID token.
    code: Option<String>,
    /// The request that began the login.
    state: Option<String>,
    /// Why there is no code.
    error: Option<String>,
}

/// Ends a login at an issuer: sets the cookie and sends the browser to the dashboard.
#[utoipa::path(
    get, path = "/v1/session/oidc/callback", operation_id = "finish_oidc_login", tag = "access", security(()),
    params(LoginCallbackParams),
    responses((status = 303), (status = 400, body = ErrorBody), (status = 404, body = ErrorBody), (status = 429, body = ErrorBody))
)]
pub(crate) async fn callback(
    State(app): State<App>,
    Extension(limits): Extension<Arc<Limits>>,
    caller: Option<Extension<Caller>>,
    headers: HeaderMap,
    Params(params): Params<LoginCallbackParams>,
) -> Result<Response> {
    let missing = || Problem::new(Code::NotFound, "there is no login at this address");
    let oidc = app.authority.oidc().ok_or_else(missing)?;
    let (caller, rate) = (caller.map(|Extension(caller)| caller), app.options.failure_rate);
    limits.try_password(caller, rate, app.now())?;
    let base = &app.options.ui.base_path;
    let mut cookies = cookie::clear_login(&app).await?;
    let failed = |why: &str, problem: &str, cookies| {
        tracing::info!(problem, "a login at an issuer failed");
        redirect(&format!("{base}login?problem={why}"), cookies)
    };
    if let Some(error) = &params.error {
        return Ok(failed("DENIED", &error.chars().take(200).collect::<String>(), cookies));
    }
    let kept = cookie::login_in(&app, &headers).await?;
    let Some((attempt, next)) = kept.as_deref().and_then(read) else {
        return Ok(failed("EXPIRED", "the browser has no login under way", cookies));
    };
    let (Some(code), Some(state)) = (&params.code, &params.state) else {
        return Ok(failed("EXPIRED", "the issuer sent no code", cookies));
    };
    if *state != attempt.state {
        return Ok(failed("EXPIRED", "the answer is for another login", cookies));
    }
    let token = match oidc.redeem_code(&attempt, code, app.now()).await {
        Ok(token) => token,
        Err(problem) => return Ok(failed("REFUSED", &problem, cookies)),
    };
    if app.authority.holder(&token).await?.is_none() {
        return Ok(failed("REFUSED", "the ID token gives nothing here", cookies));
    }
    if token.len() > TOKEN_BYTES_MAX {
        return Ok(failed("TOO_LARGE", "the ID token does not fit into a cookie", cookies));
    }
    limits.was_right(caller, rate);
    cookies.push(cookie::set(&app, oidc.is_https(), &token).await?);
    Ok(redirect(&format!("{base}{next}"), cookies))
}

/// Parses the cookie of a login.
fn read(kept: &str) -> Option<(LoginAttempt, String)> {
    let mut parts = kept.split('.').map(str::to_owned);
    let attempt = LoginAttempt {
        issuer: parts.next()?.parse().ok()?,
        state: parts.next()?,
        nonce: parts.next()?,
        verifier: parts.next()?,
    };
    let next = String::from_utf8(URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?;
    is_page(&next).then_some((attempt, next))
}

/// Whether a text is a page of the dashboard, and no other address.
fn is_page(next: &str) -> bool {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.~%?=&+-@,".contains(&byte);
    next.len() <= NEXT_BYTES_MAX
        && next.bytes().all(harmless)
        && !next.starts_with('/')
        && !next.contains("//")
}

fn redirect(address: &str, cookies: Vec<HeaderValue>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    if let Ok(address) = HeaderValue::from_str(address) {
        headers.insert(header::LOCATION, address);
    }
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::is_page;

    #[test]
    fn a_login_leads_to_pages_of_the_dashboard_only() {
        for (next, is_good) in [
            ("", true),
            ("jobs", true),
            ("jobs/a%20b?status=ACTIVE&q=x", true),
            ("runs/0192-aa?attempt=2", true),
            ("//evil.example", false),
            ("/evil", false),
            ("https://evil.example", false),
            ("javascript:alert(1)", false),
            ("jobs//x", false),
            ("a\\b", false),
            ("a\r\nb", false),
        ] {
            assert_eq!(is_page(next), is_good, "{next}");
        }
    }
}
