//! Tokens of an issuer: who they let in, and who not.

mod issuer;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use server::{Issuer, Key, Keys, LoginClient, Mapping, Oidc};
use tower::ServiceExt;

use crate::world::{Reply, World, until};
use issuer::{Alg, Signer, URL, Web};

const START: &str = "2026-01-01T00:00:00Z";
const START_S: i64 = 1_767_225_600;

/// A world that believes the issuer: tokens name their tenant in `org` and their roles in `roles`.
async fn world(web: &Web) -> World {
    let mut world = World::at(START).await;
    world.tenant("acme").await;
    world.tenant("other").await;
    for tenant in ["acme", "other"] {
        world.rule(tenant, "POST", "/v1/roles", json!({"name": "developers"})).await;
        world.rule(tenant, "POST", "/v1/roles", json!({"name": "bosses"})).await;
        for privilege in ["CREATE JOB", "ALTER JOB", "EXECUTE JOB"] {
            let grant = json!({"to_role": "developers", "privilege": privilege});
            world.rule(tenant, "POST", "/v1/grants", grant).await;
        }
        let grant = json!({"to_role": "bosses", "privilege": "ADMINISTER TENANT"});
        world.rule(tenant, "POST", "/v1/grants", grant).await;
    }
    let mapping = Mapping {
        audiences: vec!["punctual".into()],
        tenant_claim: "org".into(),
        tenant: String::new(),
        roles_claim: "roles".into(),
        roles: Vec::new(),
    };
    let issuer = Issuer { url: URL.into(), tenant: None };
    let app = &mut world.app;
    let admin = Key::parse(&world.key).unwrap();
    let keys = Keys::new(&admin, app.engine.clone(), app.clock.clone(), app.random.clone());
    let oidc = Oidc::new(vec![issuer], mapping, web.clone()).with_login(LoginClient {
        id: "dash".into(),
        secret: Some("a b".into()),
        redirect_url: "https://punctual.example/v1/session/oidc/callback".into(),
    });
    *app = app.but(|parts| parts.authority = Arc::new(keys.with_tokens(oidc)));
    world.router = server::router(app.clone());
    world
}

/// The claims of a good token, with changes.
fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": URL, "aud": "punctual", "sub": "ann|7", "iat": START_S, "exp": START_S + 3_600,
        "org": "acme", "roles": ["developers"],
    });
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

async fn get(world: &World, token: &str, path: &str) -> Reply {
    world.call_as(Some(token), "GET", path, &[], None).await
}

async fn status(world: &World, token: &str) -> u16 {
    get(world, token, "/v1/whoami").await.status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_token_of_each_algorithm_lets_its_holder_in() {
    let web = Web::default();
    let world = world(&web).await;
    for algorithm in [Alg::Rs256, Alg::Es256, Alg::EdDsa] {
        let signer = Signer::new("k", algorithm);
        web.publish(&[&signer]);
        let reply = get(&world, &signer.sign(&claims(json!({}))), "/v1/whoami").await;
        assert_eq!(reply.status, 200, "{algorithm:?} {}", reply.text);
        let me = reply.json();
        assert_eq!(me["user"], format!("{URL}#ann|7"));
        assert_eq!(me["tenant"], "acme");
        assert_eq!(me["privileges"], json!(["CREATE JOB", "ALTER JOB", "EXECUTE JOB"]));
        assert_eq!(me["token_expires_at"], "2026-01-01T01:00:00Z");
        // The next one is signed by another key of the same name.
        world.go_to_instant((world.app.clock)() + jiff::SignedDuration::from_mins(16));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_token_is_refused_like_no_token() {
    let web = Web::default();
    let world = world(&web).await;
    let rsa = Signer::new("rsa", Alg::Rs256);
    let ec = Signer::new("ec", Alg::Es256);
    web.publish(&[&rsa, &ec]);
    let good = rsa.sign(&claims(json!({})));
    assert_eq!(status(&world, &good).await, 200);
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut bad: Vec<(&str, String)> = [
        ("another audience", json!({"aud": "others"})),
        ("no audience", json!({"aud": null})),
        ("another issuer", json!({"iss": "https://evil.example.com"})),
        ("nearly the issuer", json!({"iss": format!("{URL}/")})),
        ("expired", json!({"exp": START_S - 31, "iat": START_S - 100})),
        ("without an end", json!({"exp": null})),
        ("not yet", json!({"nbf": START_S + 60})),
        ("of the future", json!({"iat": START_S + 60})),
        ("no subject", json!({"sub": null})),
        ("no tenant", json!({"org": null})),
        ("a tenant that nobody has", json!({"org": "nowhere"})),
        ("no role", json!({"roles": []})),
        ("a role that nobody has", json!({"roles": ["kings"]})),
    ]
    .into_iter()
    .map(|(what, changes)| (what, rsa.sign(&claims(changes))))
    .collect();
    let body = part(claims(json!({})));
    let none = part(json!({"alg": "none", "kid": "rsa", "typ": "JWT"}));
    bad.push(("alg none", format!("{none}.{body}.")));
    bad.push((
        "alg none, a signature",
        format!("{none}.{body}.{}", good.rsplit('.').next().unwrap()),
    ));
    // The public key, which is not secret, as the secret of an HMAC.
    for public in [rsa.public_pem(), rsa.public_der(), rsa.jwk().to_string().into_bytes()] {
        bad.push(("HS256 with the public key", rsa.sign_hmac(&claims(json!({})), &public)));
    }
    // The right key, but not what it is for.
    bad.push(("RS512", rsa.sign_as(&claims(json!({})), jsonwebtoken::Algorithm::RS512)));
    bad.push(("PS256", rsa.sign_as(&claims(json!({})), jsonwebtoken::Algorithm::PS256)));
    bad.push(("a key of another kind", ec.named("rsa").sign(&claims(json!({})))));
    let forged = Signer::new("rsa", Alg::Rs256);
    bad.push(("another key of that name", forged.sign(&claims(json!({})))));
    bad.push(("an unknown key", forged.named("x").sign(&claims(json!({})))));
    bad.push(("a key of its own", forged.sign_with_its_key(&claims(json!({})))));
    let without_name = part(json!({"alg": "RS256", "typ": "JWT"}));
    bad.push(("no key named", format!("{without_name}.{body}.x")));
    let critical = part(json!({"alg": "RS256", "kid": "rsa", "crit": ["b64"], "b64": false}));
    bad.push(("critical", format!("{critical}.{body}.{}", good.rsplit('.').next().unwrap())));
    let parts: Vec<&str> = good.split('.').collect();
    let other = part(claims(json!({"roles": ["bosses"]})));
    bad.push(("other claims", format!("{}.{other}.{}", parts[0], parts[2])));
    bad.push(("no signature", format!("{}.{}.", parts[0], parts[1])));
    bad.push(("two parts", format!("{}.{}", parts[0], parts[1])));
    bad.push(("four parts", format!("{good}.x")));
    bad.push(("too long", format!("{good}{}", "A".repeat(20_000))));
    let refused = get(&world, "garbage", "/v1/whoami").await;
    for (what, token) in bad {
        let reply = get(&world, &token, "/v1/whoami").await;
        assert_eq!((reply.status, &reply.text), (401, &refused.text), "{what}");
    }
    // They created no users.
    let users = world.rule("acme", "GET", "/v1/users", Value::Null).await;
    assert_eq!(users["data"].as_array().unwrap().len(), 1, "{users}");
    // Without issuers in the settings, no token counts.
    let plain = World::at(START).await;
    assert_eq!(status(&plain, &good).await, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_kept_rotated_and_asked_for_at_a_bounded_rate() {
    let web = Web::default();
    let world = world(&web).await;
    let (old, new) = (Signer::new("2025", Alg::Es256), Signer::new("2026", Alg::Es256));
    web.publish(&[&old]);
    let first = old.sign(&claims(json!({})));
    for _ in 0..20 {
        assert_eq!(status(&world, &first).await, 200);
    }
    assert_eq!(web.asked.load(Ordering::SeqCst), 2, "the description and the keys, once");
    // A new key is found when the first token names it.
    web.publish(&[&old, &new]);
    world.go_to("2026-01-01T00:00:31Z");
    let second = new.sign(&claims(json!({"jti": 2})));
    assert_eq!(status(&world, &second).await, 200);
    assert_eq!(web.asked.load(Ordering::SeqCst), 4);
    // Many unknown key ids cause one request to the issuer in half a minute.
    for n in 0..200 {
        let token = new.named(&format!("made up {n}")).sign(&claims(json!({})));
        assert_eq!(status(&world, &token).await, 401);
    }
    assert_eq!(web.asked.load(Ordering::SeqCst), 4);
    world.go_to("2026-01-01T00:01:02Z");
    let flood = (0..50).map(|n| {
        let token = new.named(&format!("made up {n}")).sign(&claims(json!({})));
        let world = &world;
        async move { status(world, &token).await }
    });
    assert!(futures_util::future::join_all(flood).await.iter().all(|status| *status == 401));
    assert_eq!(web.asked.load(Ordering::SeqCst), 6);
    // A key that was taken away does not count any more, a quarter of an hour later at most.
    web.publish(&[&new]);
    world.go_to("2026-01-01T00:16:03Z");
    assert_eq!(status(&world, &first).await, 401);
    assert_eq!(status(&world, &second).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_issuer_that_is_down_shuts_nobody_out_whose_key_is_known() {
    let web = Web::default();
    let world = world(&web).await;
    let signer = Signer::new("k", Alg::EdDsa);
    web.publish(&[&signer]);
    let long = claims(json!({"exp": START_S + 40 * 3_600}));
    let token = signer.sign(&long);
    assert_eq!(status(&world, &token).await, 200);
    web.is_down.store(true, Ordering::SeqCst);
    world.go_to("2026-01-01T12:00:00Z");
    for _ in 0..20 {
        assert_eq!(status(&world, &token).await, 200);
    }
    assert_eq!(web.asked.load(Ordering::SeqCst), 3, "one try in half a minute");
    // Not for ever: a key that was stolen must not outlive its issuer.
    world.go_to("2026-01-02T00:00:01Z");
    assert_eq!(status(&world, &token).await, 401);
    web.is_down.store(false, Ordering::SeqCst);
    world.go_to("2026-01-02T00:01:00Z");
    assert_eq!(status(&world, &token).await, 200);
    // A document of another issuer, or one that is no discovery document, is ignored.
    for body in [json!({"issuer": "https://evil.example.com", "jwks_uri": "https://x/"}), json!([])]
    {
        web.describe(&body);
        let other = Signer::new("other", Alg::EdDsa);
        web.publish(&[&signer, &other]);
        world.go_to_instant((world.app.clock)() + jiff::SignedDuration::from_mins(16));
        assert_eq!(status(&world, &other.sign(&long)).await, 401);
        assert_eq!(status(&world, &token).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_roles_of_the_token_decide_and_its_user_can_be_disabled() {
    let web = Web::default();
    let world = world(&web).await;
    let signer = Signer::new("k", Alg::Es256);
    web.publish(&[&signer]);
    let developer = signer.sign(&claims(json!({})));
    let boss = signer.sign(&claims(json!({"roles": ["bosses", "kings"]})));
    assert_eq!(get(&world, &developer, "/v1/users").await.status, 403);
    assert_eq!(get(&world, &boss, "/v1/users").await.status, 200);
    // The token with fewer roles gains none from the other one.
    assert_eq!(get(&world, &developer, "/v1/users").await.status, 403);
    // Another tenant is another user, and sees nothing of this one.
    let job = json!({"name": "mine", "job_type": "MANUAL", "payload": {"endpoint": "http://ok"}});
    let made = world.call_as(Some(&developer), "POST", "/v1/jobs", &[], Some(job)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let path = format!("/v1/jobs/{}", made.json()["job_id"].as_str().unwrap());
    let elsewhere = signer.sign(&claims(json!({"org": "other", "roles": ["bosses"]})));
    assert_eq!(get(&world, &elsewhere, &path).await.status, 404);
    let header = [("punctual-tenant", "acme")];
    let reply = world.call_as(Some(&elsewhere), "GET", &path, &header, None).await;
    assert_eq!(reply.status, 404);
    // The audit names issuer and subject.
    let audit = world.rule("acme", "GET", "/v1/audit?limit=500", Value::Null).await;
    let events: Vec<String> = audit["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["actor"] == format!("{URL}#ann|7"))
        .map(|event| event["event_type"].as_str().unwrap().to_owned())
        .collect();
    for kind in ["USER_CHANGED", "GRANT_CHANGED", "LOGIN", "JOB_CREATED", "DENIED"] {
        assert!(events.iter().any(|event| event == kind), "{kind} in {events:?}");
    }
    let logins = events.iter().filter(|event| *event == "LOGIN").count();
    assert_eq!(logins, 2, "one for each token");
    // Every token of a disabled user is refused.
    let users = world.rule("acme", "GET", "/v1/users", Value::Null).await;
    let user = users["data"].as_array().unwrap().iter();
    let user = user.clone().find(|user| user["name"] == format!("{URL}#ann|7")).unwrap();
    let user = format!("/v1/users/{}", user["user_id"].as_str().unwrap());
    world.rule("acme", "PATCH", &user, json!({"disabled": true})).await;
    assert_eq!(status(&world, &developer).await, 401);
    assert_eq!(status(&world, &signer.sign(&claims(json!({"jti": "new"})))).await, 401);
    world.rule("acme", "PATCH", &user, json!({"disabled": false})).await;
    assert_eq!(status(&world, &developer).await, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_run_with_the_roles_of_the_newest_token() {
    let web = Web::default();
    let world = world(&web).await;
    let signer = Signer::new("k", Alg::Es256);
    web.publish(&[&signer]);
    let token = signer.sign(&claims(json!({})));
    let job = json!({"name": "mine", "job_type": "MANUAL", "payload": {"endpoint": "http://ok"}});
    let made = world.call_as(Some(&token), "POST", "/v1/jobs", &[], Some(job)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let path = "/v1/jobs/mine/trigger";
    let outcome = async || {
        let headers = [("punctual-tenant", "acme")];
        let run = world.call("POST", path, &headers, None).await;
        assert_eq!(run.status, 202, "{}", run.text);
        let id = run.json()["execution_id"].as_str().unwrap().to_owned();
        world.ended_in("acme", &id).await["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(outcome().await, "COMPLETED");
    // A newer token without the role: the issuer has taken it away.
    world.rule("acme", "POST", "/v1/roles", json!({"name": "guests"})).await;
    let newer = signer.sign(&claims(json!({"roles": ["guests"], "iat": START_S + 10})));
    assert_eq!(status(&world, &newer).await, 200);
    assert_eq!(outcome().await, "FAILED");
    // The old token keeps the privileges of its claims, and changes nothing for the jobs.
    assert_eq!(get(&world, &token, "/v1/jobs/mine").await.status, 200);
    assert_eq!(outcome().await, "FAILED");
    let newest = signer.sign(&claims(json!({"iat": START_S + 20})));
    assert_eq!(status(&world, &newest).await, 200);
    assert_eq!(outcome().await, "COMPLETED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_makes_nothing_that_outlives_it() {
    let web = Web::default();
    let world = world(&web).await;
    let signer = Signer::new("k", Alg::Es256);
    web.publish(&[&signer]);
    let token = signer.sign(&claims(json!({})));
    let key =
        async |body: Value| world.call_as(Some(&token), "POST", "/v1/keys", &[], Some(body)).await;
    assert_eq!(key(json!({})).await.status, 403);
    assert_eq!(key(json!({"expires_at": "2026-01-01T01:00:01Z"})).await.status, 403);
    let short = key(json!({"expires_at": "2026-01-01T00:30:00Z"})).await;
    assert_eq!(short.status, 201, "{}", short.text);
    let change = json!({"old_password": "whatever it was", "new_password": "another one"});
    let reply = world.call_as(Some(&token), "POST", "/v1/whoami/password", &[], Some(change)).await;
    assert_eq!(reply.error().2, "old_password");
    // A stream ends with its token.
    let request = Request::get("/v1/events").header("authorization", format!("Bearer {token}"));
    let response =
        world.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let stream = tokio::spawn(response.into_body().collect());
    world.go_to("2026-01-01T01:00:31Z");
    until(|| async { stream.is_finished().then_some(()) }).await;
    assert_eq!(status(&world, &token).await, 401);
}

/// A parameter of the query of an address.
fn query(address: &str, name: &str) -> String {
    let begin = format!("{name}=");
    let (_, query) = address.split_once('?').unwrap();
    let found = query.split('&').find_map(|part| part.strip_prefix(&begin));
    found.unwrap_or_else(|| panic!("{name} in {address}")).to_owned()
}

fn cookies(reply: &Reply) -> Vec<String> {
    let all = reply.headers.get_all("set-cookie").iter();
    all.map(|value| value.to_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_logs_in_at_an_issuer() {
    let web = Web::default();
    let world = world(&web).await;
    let signer = Signer::new("k", Alg::Es256);
    web.publish(&[&signer]);
    let call = async |path: &str, cookie: &str| {
        let headers = [("cookie", cookie), ("sec-fetch-site", "same-origin")];
        world.call_as(None, "GET", path, &headers, None).await
    };
    let view = call("/v1/session", "").await.json();
    let login = json!([{"name": "id.example.com", "path": "/v1/session/oidc/0"}]);
    assert_eq!(view["logins"], login);
    // Without endpoints there is no login, and the page shows that.
    let reply = call("/v1/session/oidc/0", "").await;
    assert_eq!((reply.status, reply.header("location")), (303, "/ui/login?problem=UNREACHABLE"));
    web.answer_codes("");
    let started = call("/v1/session/oidc/0?next=jobs/a%3Fx=1", "").await;
    assert_eq!(started.status, 303, "{}", started.text);
    let address = started.header("location").to_owned();
    assert!(
        address.starts_with(&format!("{URL}/auth?response_type=code&client_id=dash&")),
        "{address}"
    );
    assert_eq!(query(&address, "code_challenge_method"), "S256");
    let kept = cookies(&started).remove(0);
    for part in ["__Host-punctual_login_", "; HttpOnly", "; Secure", "SameSite=Lax"] {
        assert!(kept.contains(part), "{kept}");
    }
    let kept = kept.split(';').next().unwrap().to_owned();
    let (state, nonce) = (query(&address, "state"), query(&address, "nonce"));
    let finish = async |changes: Value, state: &str, cookie: &str| {
        web.answer_codes(&signer.sign(&claims(changes)));
        call(&format!("/v1/session/oidc/callback?code=c&state={state}"), cookie).await
    };
    // Answers for another login, for another browser, and tokens that are not good.
    for (what, changes, state, cookie, problem) in [
        ("another state", json!({"nonce": nonce}), "x", kept.as_str(), "EXPIRED"),
        ("no cookie", json!({"nonce": nonce}), state.as_str(), "", "EXPIRED"),
        ("another nonce", json!({"nonce": "x"}), state.as_str(), kept.as_str(), "REFUSED"),
        ("no nonce", json!({}), state.as_str(), kept.as_str(), "REFUSED"),
        (
            "another audience",
            json!({"nonce": nonce, "aud": "x"}),
            state.as_str(),
            kept.as_str(),
            "REFUSED",
        ),
        ("no role", json!({"nonce": nonce, "roles": []}), state.as_str(), kept.as_str(), "REFUSED"),
        (
            "too large",
            json!({"nonce": nonce, "more": "x".repeat(4000)}),
            state.as_str(),
            kept.as_str(),
            "TOO_LARGE",
        ),
    ] {
        let reply = finish(changes, state, cookie).await;
        let expected = format!("/ui/login?problem={problem}");
        assert_eq!((reply.status, reply.header("location")), (303, expected.as_str()), "{what}");
        let sessions = cookies(&reply).into_iter().filter(|cookie| !cookie.contains("Max-Age=0"));
        assert_eq!(sessions.count(), 0, "{what}");
    }
    let denied = call("/v1/session/oidc/callback?error=access_denied", &kept).await;
    assert_eq!(denied.header("location"), "/ui/login?problem=DENIED");
    let reply = finish(json!({"nonce": nonce}), &state, &kept).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/ui/jobs/a?x=1"), "{}", reply.text);
    let (form, sender) = web.posted.lock().unwrap().clone().unwrap();
    assert!(
        form.starts_with("grant_type=authorization_code&code=c&redirect_uri=https%3A%2F%2F"),
        "{form}"
    );
    assert_eq!(sender.unwrap(), "Basic ZGFzaDphJTIwYg==");
    let session =
        cookies(&reply).into_iter().find(|cookie| cookie.contains("SameSite=Strict")).unwrap();
    let session = session.split(';').next().unwrap().to_owned();
    let view = call("/v1/session", &session).await.json();
    assert_eq!(view["identity"]["tenant"], "acme", "{view}");
    assert_eq!(call("/v1/jobs", &session).await.status, 200);
    // Pages of other sites cannot use it, and it ends with the token.
    let foreign = [("cookie", session.as_str()), ("sec-fetch-site", "cross-site")];
    assert_eq!(world.call_as(None, "GET", "/v1/jobs", &foreign, None).await.status, 403);
    world.go_to_instant((world.app.clock)() + jiff::SignedDuration::from_mins(61));
    assert_eq!(call("/v1/session", &session).await.json()["identity"], Value::Null);
    assert_eq!(call("/v1/session/oidc/7", "").await.status, 404);
}
