//! The session of a browser: a key, or the token of an issuer, in a cookie that no script can read.
//!
//! A browser sends a cookie with every request to this host, whichever site caused the request. The
//! cookie therefore counts only where the browser says that the page is one of this server.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use sha2::{Digest, Sha256};

use crate::actor::Credential;
use crate::app::App;
use crate::problem::{Code, Problem, Result};

/// The kind of the cookie that a login under way has.
const LOGIN: &str = "login_";

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The names of the cookie. Cookies ignore ports: a part that differs between clusters keeps two
/// servers on one machine apart.
struct CookieNames {
    /// Over HTTPS. Browsers accept the prefix `__Host-` only with `Secure`, for the whole host, and
    /// from the host itself. Below a path it is `__Secure-`.
    secure: String,
    /// Over plain HTTP, where some browsers keep no `Secure` cookie even on loopback.
    plain: String,
    /// The path below which browsers see this server: other programs of the host get no cookie.
    path: String,
}

impl CookieNames {
    async fn of_cluster(app: &App, kind: &str) -> Result<Self> {
        let salt = app.engine.node().salt().await?;
        let digest = Sha256::new().chain_update("session cookie\n").chain_update(salt).finalize();
        let plain: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let plain = format!("punctual_{kind}{plain}");
        let path = server_path(&app.options.ui.base_path).to_owned();
        let prefix = if path == "/" { "__Host-" } else { "__Secure-" };
        Ok(CookieNames { secure: format!("{prefix}{plain}"), plain, path })
    }
}

/// The path below which browsers see the server whose dashboard they see at `base_path`: the API is
/// beside the dashboard.
fn server_path(base_path: &str) -> &str {
    let parent = base_path.trim_end_matches('/').rsplit_once('/').map_or(0, |(path, _)| path.len());
    &base_path[..=parent]
}

/// The value of a cookie of a request, under either of its names.
fn value_in(headers: &HeaderMap, names: &CookieNames) -> Option<String> {
    let cookies = || {
        let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='))
    };
    let named = |wanted: &str| cookies().find(|(name, _)| *name == wanted);
    let found = named(&names.secure).or_else(|| named(&names.plain));
    found.map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty())
}

/// The key or token in the cookie of a request, whatever site caused the request.
pub(crate) async fn credential_in(app: &App, headers: &HeaderMap) -> Result<Option<Credential>> {
    if !headers.contains_key(header::COOKIE) {
        return Ok(None);
    }
    let names = CookieNames::of_cluster(app, "").await?;
    Ok(value_in(headers, &names).map(|value| Credential::parse(&value)))
}

/// The header that gives a browser the cookie with its key or token.
pub(crate) async fn set(app: &App, is_https: bool, secret: &str) -> Result<HeaderValue> {
    let names = CookieNames::of_cluster(app, "").await?;
    made(names, is_https, secret, "SameSite=Strict")
}

/// The header that gives a browser the cookie of a login that is under way. The issuer is another
/// site, so the browser must send it when it comes from there.
pub(crate) async fn set_login(app: &App, is_https: bool, kept: &str) -> Result<HeaderValue> {
    let names = CookieNames::of_cluster(app, LOGIN).await?;
    made(names, is_https, kept, "SameSite=Lax; Max-Age=600")
}

/// The value of the cookie of a login that is under way.
pub(crate) async fn login_in(app: &App, headers: &HeaderMap) -> Result<Option<String>> {
    Ok(value_in(headers, &CookieNames::of_cluster(app, LOGIN).await?))
}

/// The headers that take the cookie of a login away again.
pub(crate) async fn clear_login(app: &App) -> Result<Vec<HeaderValue>> {
    Ok(cleared(CookieNames::of_cluster(app, LOGIN).await?, "Lax"))
}

/// The headers that take the cookie away again, under both of its names.
pub(crate) async fn clear(app: &App) -> Result<Vec<HeaderValue>> {
    Ok(cleared(CookieNames::of_cluster(app, "").await?, "Strict"))
}

fn made(names: CookieNames, is_https: bool, value: &str, more: &str) -> Result<HeaderValue> {
    let (name, secure) = match is_https {
        true => (&names.secure, "; Secure"),
        false => (&names.plain, ""),
    };
    let text = format!("{name}={value}; Path={}; HttpOnly; {more}{secure}", names.path);
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| Problem::new(Code::Internal, "the cookie cannot be written"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn cleared(names: CookieNames, same_site: &str) -> Vec<HeaderValue> {
    let gone = |name: &str, secure: &str| {
        let text = format!(
            "{name}=; Path={}; HttpOnly; SameSite={same_site}; Max-Age=0{secure}",
            names.path
        );
        HeaderValue::try_from(text).ok()
    };
    [gone(&names.secure, "; Secure"), gone(&names.plain, "")].into_iter().flatten().collect()
}

/// Whether the browser talks HTTPS, to this server or to a proxy before it.
pub(crate) fn is_https(app: &App, headers: &HeaderMap) -> bool {
    match headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()) {
        Some(origin) => origin.starts_with("https://"),
        None => app.options.has_tls,
    }
}

/// Refuses a request that a page of another site has caused. A browser that does not say so names
/// the origin of the page at least with requests that change something.
pub(crate) fn require_same_origin(method: &Method, headers: &HeaderMap) -> Result<()> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let is_own = match (text(FETCH_SITE), text(header::ORIGIN)) {
        (Some("same-origin"), _) => true,
        // An address that a person has typed.
        (Some("none"), _) => method.is_safe(),
        (Some(_), _) => false,
        (None, Some(origin)) => {
            let host = origin.split_once("://").map(|(_, host)| host);
            host.is_some() && host == text(header::HOST)
        }
        (None, None) => method.is_safe(),
    };
    match is_own {
        true => Ok(()),
        false => Err(Problem::new(Code::Forbidden, "request of another site refused")
            .with_hint("use the dashboard of this server, or send an Authorization header")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_for_the_path_of_the_server() {
        for (base, path) in [("/ui/", "/"), ("/punctual/ui/", "/punctual/"), ("/a/b/ui/", "/a/b/")]
        {
            assert_eq!(server_path(base), path);
        }
        assert_eq!(server_path("/"), "/");
    }

    fn headers(site: &str, origin: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [(FETCH_SITE, site), (header::ORIGIN, origin), (header::HOST, "punctual.example:8630")]
        {
            if !value.is_empty() {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        }
        headers
    }

    #[test]
    fn only_pages_of_this_server_use_the_cookie() {
        let (own, other) = ("https://punctual.example:8630", "https://evil.example");
        // The headers that the browser sends; whether it may read, and whether it may change
        // something.
        for (site, origin, reads, changes) in [
            ("same-origin", own, true, true),
            ("same-origin", "", true, true),
            ("none", "", true, false),
            ("same-site", own, false, false),
            ("cross-site", "", false, false),
            ("cross-site", own, false, false),
            ("", own, true, true),
            ("", other, false, false),
            ("", "null", false, false),
            ("", "https://punctual.example", false, false),
            ("", "", true, false),
        ] {
            let headers = headers(site, origin);
            let may = |method| require_same_origin(&method, &headers).is_ok();
            assert_eq!((may(Method::GET), may(Method::POST)), (reads, changes), "{site} {origin}");
        }
    }
}
