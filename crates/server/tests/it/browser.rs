//! The session of a browser: a cookie in the place of a key, for pages of this server only; and the
//! files of the dashboard.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use jiff::SignedDuration;
use serde_json::{Value, json};
use server::{Key, Keys, Options};

use crate::world::{Reply, World};

const START: &str = "2024-01-15T10:30:00Z";

const OWN: (&str, &str) = ("sec-fetch-site", "same-origin");

async fn open(world: &World, body: Value, headers: &[(&str, &str)]) -> Reply {
    world.call_as(None, "POST", "/v1/session", headers, Some(body)).await
}

/// The cookie that a browser sends back.
fn cookie(reply: &Reply) -> String {
    reply.header("set-cookie").split(';').next().unwrap_or_default().to_owned()
}

async fn with(
    world: &World,
    cookie: &str,
    method: &str,
    path: &str,
    more: &[(&str, &str)],
) -> Reply {
    let headers: Vec<(&str, &str)> =
        [("cookie", cookie)].into_iter().chain(more.iter().copied()).collect();
    world.call_as(None, method, path, &headers, None).await
}

#[tokio::test]
async fn passwords_keys_and_links_open_sessions() {
    let mut world = World::at(START).await;
    let admin = Key::parse(&world.key).unwrap();
    let app = &mut world.app;
    let keys = Keys::new(&admin, app.engine.clone(), app.clock.clone(), app.random.clone());
    let token = keys.make_login_link();
    let keys = Arc::new(keys);
    *app = app.but(|parts| parts.authority = keys.clone());
    world.router = server::router(app.clone());
    world.tenant("acme").await;
    let ann = json!({"name": "ann", "password": "correct horse"});
    world.rule("acme", "POST", "/v1/users", ann).await;
    let who = async |cookie: &str| {
        let view = with(&world, cookie, "GET", "/v1/session", &[OWN]).await.json();
        (view["identity"]["user"].clone(), view["identity"]["tenant"].clone())
    };
    assert_eq!(who("a=b").await, (Value::Null, Value::Null));
    let password = json!({"tenant": "acme", "user": "ann", "password": "correct horse"});
    for (body, expected) in [
        (password, (json!("ann"), json!("acme"))),
        (json!({"key": world.key}), (json!("admin"), json!("default"))),
        (json!({"login_token": token}), (json!("admin"), json!("default"))),
    ] {
        let reply = open(&world, body.clone(), &[OWN]).await;
        assert_eq!((reply.status, reply.text.as_str()), (204, ""), "{body}");
        let set = reply.header("set-cookie").to_owned();
        assert!(set.contains("; HttpOnly; SameSite=Strict") && set.contains("; Path=/"), "{set}");
        assert_eq!(who(&cookie(&reply)).await, expected);
    }
    // A link lets in once, a wrong password, key or token never, and nothing is no way in.
    for (body, status) in [
        (json!({"login_token": token}), 401),
        (json!({"login_token": "0".repeat(64)}), 401),
        (json!({"key": Key::new([8; 40]).reveal()}), 401),
        (json!({"key": "nonsense"}), 401),
        (json!({"tenant": "acme", "user": "ann", "password": "wrong horse"}), 401),
        (json!({}), 422),
        (json!({"user": "ann"}), 422),
        (json!({"key": world.key, "login_token": "x"}), 422),
    ] {
        let reply = open(&world, body.clone(), &[OWN]).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text);
        assert_eq!(reply.header("set-cookie"), "");
    }
}

#[tokio::test]
async fn a_login_link_is_worth_nothing_after_an_hour() {
    let mut world = World::at(START).await;
    let admin = Key::parse(&world.key).unwrap();
    let app = &mut world.app;
    let keys = Keys::new(&admin, app.engine.clone(), app.clock.clone(), app.random.clone());
    let token = keys.make_login_link();
    let keys = Arc::new(keys);
    *app = app.but(|parts| parts.authority = keys.clone());
    world.router = server::router(app.clone());
    world.go_on(SignedDuration::from_hours(1));
    assert_eq!(open(&world, json!({"login_token": token}), &[OWN]).await.status, 401);
}

#[tokio::test]
async fn the_cookie_counts_for_pages_of_this_server_only() {
    let world = World::at(START).await;
    let given = cookie(&open(&world, json!({"key": world.key}), &[OWN]).await);
    let job = json!({"name": "made", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    let make = async |more: &[(&str, &str)]| {
        let headers: Vec<(&str, &str)> =
            [("cookie", given.as_str())].into_iter().chain(more.iter().copied()).collect();
        world.call_as(None, "POST", "/v1/jobs", &headers, Some(job.clone())).await
    };
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "none")],
        &[("origin", "https://evil.example"), ("host", "punctual.example")],
        &[],
    ] {
        let reply = make(headers).await;
        assert_eq!(reply.error().1, "FORBIDDEN", "{headers:?}: {}", reply.text);
    }
    assert_eq!(make(&[OWN]).await.status, 201);
    let own = [("origin", "https://punctual.example"), ("host", "punctual.example")];
    assert_eq!(make(&own).await.status, 409, "the request was let in");
    for (site, status) in [("same-origin", 200), ("none", 200), ("cross-site", 403)] {
        let reply = with(&world, &given, "GET", "/v1/jobs", &[("sec-fetch-site", site)]).await;
        assert_eq!(reply.status, status, "{site}");
    }
    // A login that another site causes is refused, and in a request with a key the cookie is
    // ignored.
    let elsewhere = [("sec-fetch-site", "cross-site")];
    assert_eq!(open(&world, json!({"key": world.key}), &elsewhere).await.status, 403);
    let headers = [("cookie", given.as_str()), ("authorization", "Bearer wrong"), OWN];
    assert_eq!(world.call_as(None, "GET", "/v1/jobs", &headers, None).await.status, 401);
    // Nothing but REST takes it.
    assert_eq!(with(&world, &given, "GET", "/metrics", &[OWN]).await.status, 401);
}

#[tokio::test]
async fn a_session_ends_when_its_owner_says_so() {
    let world = World::at(START).await;
    world.tenant("acme").await;
    let ann = json!({"name": "ann", "password": "correct horse"});
    world.rule("acme", "POST", "/v1/users", ann).await;
    let body = json!({"tenant": "acme", "user": "ann", "password": "correct horse"});
    let by_password = cookie(&open(&world, body, &[OWN]).await);
    let by_key = cookie(&open(&world, json!({"key": world.key}), &[OWN]).await);
    let elsewhere = [("sec-fetch-site", "cross-site")];
    assert_eq!(with(&world, &by_password, "DELETE", "/v1/session", &elsewhere).await.status, 403);
    for cookie in [&by_password, &by_key] {
        let reply = with(&world, cookie, "DELETE", "/v1/session", &[OWN]).await;
        assert_eq!(reply.status, 204);
        assert!(reply.header("set-cookie").contains("Max-Age=0"));
    }
    // The key of a login is gone; an API key is not the session's to delete.
    let status = async |cookie: &str| with(&world, cookie, "GET", "/v1/jobs", &[OWN]).await.status;
    assert_eq!((status(&by_password).await, status(&by_key).await), (401, 200));
    let view = with(&world, &by_password, "GET", "/v1/session", &[OWN]).await;
    assert_eq!((view.status, &view.json()["identity"]), (200, &Value::Null));
    assert_eq!(with(&world, "", "DELETE", "/v1/session", &[]).await.status, 204);
}

#[tokio::test]
async fn over_https_the_cookie_belongs_to_this_host_alone() {
    let world = World::at(START).await;
    let host = ("host", "punctual.example");
    let https = [("origin", "https://punctual.example"), host];
    let set = open(&world, json!({"key": world.key}), &https).await.header("set-cookie").to_owned();
    assert!(set.starts_with("__Host-punctual_") && set.ends_with("; Secure"), "{set}");
    let http = [("origin", "http://punctual.example"), host];
    let set = open(&world, json!({"key": world.key}), &http).await.header("set-cookie").to_owned();
    assert!(set.starts_with("punctual_") && !set.contains("Secure"), "{set}");
}

#[tokio::test]
async fn below_a_path_the_cookie_is_for_that_path() {
    let mut options = Options::default();
    options.ui.base_path = "/punctual/ui/".to_owned();
    let world = World::with(START.parse().unwrap(), options).await;
    for (origin, name) in [("https", "__Secure-punctual_"), ("http", "punctual_")] {
        let origin = format!("{origin}://punctual.example");
        let headers = [("origin", origin.as_str()), ("host", "punctual.example")];
        let reply = open(&world, json!({"key": world.key}), &headers).await;
        let set = reply.header("set-cookie").to_owned();
        assert!(set.starts_with(name) && set.contains("; Path=/punctual/;"), "{set}");
        let view = with(&world, &cookie(&reply), "GET", "/v1/session", &[OWN]).await.json();
        assert_eq!(view["identity"]["user"], "admin", "{view}");
    }
}

/// The names of the scripts and styles that the page loads.
fn assets(page: &str) -> Vec<String> {
    let parts = page.split('"').filter_map(|part| part.strip_prefix("./assets/"));
    parts.map(|name| format!("/ui/assets/{name}")).collect()
}

async fn fetch(world: &World, path: &str, headers: &[(&str, &str)]) -> (u16, Vec<u8>, Reply) {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response =
        world.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes().to_vec();
    let reply =
        Reply { status: parts.status.as_u16(), headers: parts.headers, text: String::new() };
    (reply.status, bytes, reply)
}

#[tokio::test]
async fn the_dashboard_is_served_to_everybody() {
    let world = World::at(START).await;
    for path in ["/", "/ui"] {
        let reply = world.call_as(None, "GET", path, &[], None).await;
        assert_eq!((reply.status, reply.header("location")), (303, "/ui/"), "{path}");
    }
    let page = world.call_as(None, "GET", "/ui/", &[], None).await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(page.text.contains("<base href=\"/ui/\""), "{}", page.text);
    let policy = page.header("content-security-policy").to_owned();
    for part in ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    // The page is the same at every address below; a file that is not there is not the page.
    for path in ["/ui/jobs/a%20b", "/ui/runs/x", "/ui/login", "/ui/index.html"] {
        let reply = world.call_as(None, "GET", path, &[], None).await;
        assert_eq!((reply.status, &reply.text), (200, &page.text), "{path}");
    }
    assert_eq!(world.call_as(None, "GET", "/ui/assets/old.js", &[], None).await.status, 404);
    assert_eq!(world.call_as(None, "POST", "/ui/", &[], None).await.status, 405);
    let known = [("if-none-match", page.header("etag"))];
    assert_eq!(world.call_as(None, "GET", "/ui/", &known, None).await.status, 304);
    // All other responses of the server may load nothing at all.
    let api = world.call_as(None, "GET", "/healthz", &[], None).await;
    assert!(
        api.header("content-security-policy").starts_with("default-src 'none'; frame-ancestors")
    );
}

#[tokio::test]
async fn files_of_the_dashboard_are_compressed_and_kept() {
    let world = World::at(START).await;
    let page = world.call_as(None, "GET", "/ui/", &[], None).await.text;
    let names = assets(&page);
    assert!(names.iter().any(|name| name.ends_with(".js")), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with(".css")), "{names:?}");
    for name in names {
        let (status, plain, reply) = fetch(&world, &name, &[]).await;
        assert_eq!((status, reply.header("content-encoding")), (200, ""), "{name}");
        assert_eq!(reply.header("cache-control"), "public, max-age=31536000, immutable");
        let (_, small, packed) = fetch(&world, &name, &[("accept-encoding", "br, gzip")]).await;
        assert_eq!(packed.header("content-encoding"), "gzip");
        assert!(small.len() < plain.len() && small.starts_with(&[0x1f, 0x8b]), "{name}");
        assert_ne!(packed.header("etag"), reply.header("etag"));
        let refused = [("accept-encoding", "gzip;q=0")];
        assert_eq!(fetch(&world, &name, &refused).await.1, plain);
        let known = [("if-none-match", reply.header("etag"))];
        assert_eq!(fetch(&world, &name, &known).await.0, 304);
    }
}
