//! Tokens of an issuer on this machine, in a real server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PublicKeyData};
use serde_json::{Value, json};

use super::client;
use super::process::Server;
use crate::binary::{Ended, punctual};

/// An issuer that answers over HTTP.
struct Issuer {
    url: String,
    keys: Arc<Mutex<Value>>,
}

impl Issuer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keys: Arc<Mutex<Value>> = Arc::default();
        let (published, place) = (Arc::clone(&keys), url.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut stream = BufReader::new(stream);
                let mut first = String::new();
                stream.read_line(&mut first).unwrap();
                let body = match first.split(' ').nth(1) {
                    Some("/.well-known/openid-configuration") => {
                        json!({"issuer": place, "jwks_uri": format!("{place}/keys")})
                    }
                    Some("/keys") => published.lock().unwrap().clone(),
                    _ => Value::Null,
                };
                let body = body.to_string();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len());
                let answer = format!("{head}Connection: close\r\n\r\n{body}");
                let _ = stream.get_mut().write_all(answer.as_bytes());
            }
        });
        Issuer { url, keys }
    }

    /// Publishes a key under a name.
    fn publish(&self, name: &str, pair: &KeyPair) {
        let raw = pair.der_bytes();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let key = json!({
            "kty": "EC", "crv": "P-256", "alg": "ES256", "kid": name,
            "x": text(&raw[1..33]), "y": text(&raw[33..]),
        });
        *self.keys.lock().unwrap() = json!({"keys": [key]});
    }
}

fn token(name: &str, pair: &KeyPair, claims: &Value) -> String {
    let header = Header { kid: Some(name.to_owned()), ..Header::new(Algorithm::ES256) };
    encode(&header, claims, &EncodingKey::from_ec_der(pair.serialized_der())).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a token is for the present")]
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[test]
fn a_token_of_a_trusted_issuer_is_as_good_as_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let issuer = Issuer::start();
    let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    issuer.publish("first", &pair);
    let environment = [
        ("PUNCTUAL_AUTH__OIDC__ISSUERS", issuer.url.as_str()),
        ("PUNCTUAL_AUTH__OIDC__AUDIENCE", "punctual"),
        ("PUNCTUAL_AUTH__OIDC__TENANT", "default"),
        ("PUNCTUAL_AUTH__OIDC__ROLES_CLAIM", "groups"),
        ("PUNCTUAL_AUTH__OIDC__ROLES", "Scheduling Team=developers"),
    ];
    let server = Server::start_with(&data, &[], &environment);
    for (path, body) in [
        ("/v1/roles", json!({"name": "developers"})),
        ("/v1/grants", json!({"to_role": "developers", "privilege": "CREATE JOB"})),
        ("/v1/grants", json!({"to_role": "developers", "privilege": "EXECUTE JOB"})),
    ] {
        assert_eq!(server.call("POST", path, Some(&body)).0, 201);
    }
    let claims = json!({
        "iss": issuer.url, "aud": ["punctual", "others"], "sub": "ann", "iat": now(),
        "exp": now() + 3_600, "groups": ["Scheduling Team", "Everybody"],
    });
    let good = token("first", &pair, &claims);
    let ask = |token: &str, method: &str, path: &str, body: Option<&Value>| {
        let (status, text) = client::request(&server.address, token, method, path, body).unwrap();
        (status, serde_json::from_str::<Value>(&text).unwrap_or_default())
    };
    let (status, me) = ask(&good, "GET", "/v1/whoami", None);
    assert_eq!((status, &me["user"]), (200, &json!(format!("{}#ann", issuer.url))), "{me}");
    let job = json!({"name": "job", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(ask(&good, "POST", "/v1/jobs", Some(&job)).0, 201);
    // The command line takes it where it takes a key.
    let said = |args: &[&str]| -> Ended {
        let url = format!("http://{}", server.address);
        let mut command = punctual(args);
        command.env("PUNCTUAL_SERVER", url).env("PUNCTUAL_TOKEN", &good);
        crate::binary::ended(&command.output().unwrap())
    };
    let listed = said(&["job", "list", "-o", "name"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (Some(0), "job\n"), "{listed:?}");
    // Another key under the name of the published one.
    let other = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    assert_eq!(ask(&token("first", &other, &claims), "GET", "/v1/whoami", None).0, 401);
    let late = json!({
        "iss": issuer.url, "aud": "punctual", "sub": "ann", "iat": now() - 100,
        "exp": now() - 60, "groups": ["Scheduling Team"],
    });
    assert_eq!(ask(&token("first", &pair, &late), "GET", "/v1/whoami", None).0, 401);
    let name = format!("{}#ann", issuer.url);
    let (_, audit) = server.call("GET", "/v1/audit?limit=500", None);
    let events = audit["data"].as_array().unwrap();
    let made = events.iter().find(|event| event["event_type"] == "JOB_CREATED").unwrap();
    assert_eq!(made["actor"], json!(name));
    // Disabled by name, like every user.
    let data_text = data.to_str().unwrap();
    let disabled =
        crate::binary::run(["user", "edit", name.as_str(), "--disable", "--data", data_text], b"");
    assert_eq!(disabled.code, Some(0), "{disabled:?}");
    assert_eq!(ask(&good, "GET", "/v1/whoami", None).0, 401);
}
