//! Logins of the SQL interface: accepted, refused, and ended.

use serde_json::json;

use super::Bed;
use super::raw::Raw;
use crate::serve::process::{Server, until};

const WRONG: Option<&str> = Some("28P01");

#[test]
fn a_password_and_a_key_are_accepted_and_nothing_else() {
    let bed = Bed::new();
    bed.tenant("acme", "ann", "correct horse");
    let login = |user: &str, secret: &str, tenant: &str| {
        Raw::login(&bed.address, user, secret, tenant).err()
    };
    assert_eq!(login("ann", "correct horse", "acme"), None);
    assert_eq!(login("admin", &bed.server.key, "default"), None);
    // The administrator of the cluster may act everywhere; others only at home.
    assert_eq!(login("admin", &bed.server.key, "acme"), None);
    for (user, secret, tenant) in [
        ("ann", "correct hors", "acme"),
        ("ann", "", "acme"),
        ("ann", "correct horse", "default"),
        ("ann", &bed.server.key, "acme"),
        ("admin", "correct horse", "acme"),
        ("admin", &bed.server.key, "nowhere"),
        ("nobody", "correct horse", "acme"),
        ("", "x", "acme"),
        ("ann\" OR \"1\"=\"1", "x", "acme"),
    ] {
        let refused = login(user, secret, tenant);
        assert!(matches!(refused.as_deref(), Some("28P01" | "28000")), "{user} {refused:?}");
    }
    // A key of hers opens it too, until it is revoked.
    let key = json!({ "user": "ann", "label": "sql" });
    let (status, made) = as_admin_of("acme", &bed.server, "POST", "/v1/keys", Some(&key));
    assert_eq!(status, 201, "{made}");
    let (key, id) = (made["key"].as_str().unwrap(), made["key_id"].as_str().unwrap());
    assert_eq!(login("ann", key, "acme"), None);
    let (status, _) = as_admin_of("acme", &bed.server, "DELETE", &format!("/v1/keys/{id}"), None);
    assert_eq!(status, 204);
    until(|| (login("ann", key, "acme").as_deref() == WRONG).then_some(()));
}

/// A call of the administrator in another tenant.
fn as_admin_of(
    tenant: &str,
    server: &Server,
    method: &str,
    path: &str,
    body: Option<&serde_json::Value>,
) -> (u16, serde_json::Value) {
    let url = format!("http://{}{path}", server.address);
    let mut curl = super::program("curl");
    curl.args(["-s", "-w", "\n%{http_code}", "-X", method, &url])
        .args(["-H", &format!("Authorization: Bearer {}", server.key)])
        .args(["-H", &format!("Punctual-Tenant: {tenant}")]);
    if let Some(body) = body {
        curl.args(["-H", "Content-Type: application/json", "-d", &body.to_string()]);
    }
    let output = curl.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn a7_an_open_session_ends_with_its_key_or_its_user() {
    let bed = Bed::new();
    bed.tenant("acme", "ann", "correct horse");
    let key = json!({ "user": "ann", "label": "sql" });
    let (_, made) = as_admin_of("acme", &bed.server, "POST", "/v1/keys", Some(&key));
    let (key, id) = (made["key"].as_str().unwrap(), made["key_id"].as_str().unwrap());
    let mut by_key = Raw::login(&bed.address, "ann", key, "acme").unwrap();
    let mut by_password = Raw::login(&bed.address, "ann", "correct horse", "acme").unwrap();
    assert_eq!(by_key.query("SHOW server_encoding"), ["SHOW", "ready"]);
    as_admin_of("acme", &bed.server, "DELETE", &format!("/v1/keys/{id}"), None);
    // No statement is sent; the server ends the session by itself.
    assert_eq!(by_key.all(), ["57P01", "end"]);
    assert_eq!(by_password.query("SHOW server_encoding"), ["SHOW", "ready"]);
    let disable = json!({ "disabled": true });
    let (status, _) = as_admin_of("acme", &bed.server, "PATCH", "/v1/users/ann", Some(&disable));
    assert_eq!(status, 200);
    assert_eq!(by_password.all(), ["57P01", "end"]);
    let refused = Raw::login(&bed.address, "ann", "correct horse", "acme").err();
    assert_eq!(refused.as_deref(), WRONG);
}

#[test]
fn a4_wrong_passwords_have_to_wait_and_keys_have_not() {
    let bed = Bed::new();
    bed.tenant("acme", "ann", "correct horse");
    let (_, made) =
        as_admin_of("acme", &bed.server, "POST", "/v1/keys", Some(&json!({ "user": "ann" })));
    let key = made["key"].as_str().unwrap();
    let login =
        |secret: &str| Raw::login(&bed.address, "ann", secret, "acme").err().unwrap_or_default();
    // A machine on which guessing takes longer than waiting tries again; each wait is twice as long.
    let guessed = (0..40).any(|n| login(&format!("guess {n}")) == "53400");
    assert!(guessed, "nobody has to wait");
    let waits = |n: usize| {
        while login(&format!("again {n}")) != "53400" {}
        login("correct horse") == "53400"
    };
    assert!((0..5).any(waits), "the right one has to wait too");
    assert_eq!(login(key), "", "nobody guesses a key");
    // Unknown names are refused in the same way.
    let stranger =
        |n: usize| Raw::login(&bed.address, "nobody", &format!("guess {n}"), "acme").err().unwrap();
    let answers: Vec<String> = (0..12).map(stranger).collect();
    assert_eq!(answers[0], "28P01");
    assert!(answers.iter().any(|answer| answer == "53400"), "{answers:?}");
}

#[test]
fn logins_and_refusals_are_in_the_audit() {
    let bed = Bed::new();
    assert_eq!(Raw::login(&bed.address, "admin", "wrong", "default").err().as_deref(), WRONG);
    let mut admin = Raw::login(&bed.address, "admin", &bed.server.key, "default").unwrap();
    assert_eq!(admin.query("DROP JOB nothing").first().map(String::as_str), Some("42704"));
    let outcomes = until(|| {
        let (status, page) = bed.server.call("GET", "/v1/audit?event_type=LOGIN", None);
        assert_eq!(status, 200, "{page}");
        let rows = page["items"].as_array().or(page["data"].as_array()).unwrap().clone();
        let mut outcomes: Vec<String> =
            rows.iter().map(|row| row["outcome"].as_str().unwrap().to_owned()).collect();
        outcomes.sort();
        (outcomes.len() >= 2).then_some(outcomes)
    });
    assert_eq!(outcomes, ["DENIED", "DONE"]);
}

#[test]
fn a_key_from_before_the_sql_interface_works_after_it_was_used() {
    let bed = Bed::new();
    bed.tenant("acme", "ann", "correct horse");
    let (_, made) =
        as_admin_of("acme", &bed.server, "POST", "/v1/keys", Some(&json!({ "user": "ann" })));
    let key = made["key"].as_str().unwrap().to_owned();
    let Bed { server, folder, .. } = bed;
    server.terminate();
    assert_eq!(server.wait(), Some(0));
    // As a release before the SQL interface left it: nothing is kept of passwords and keys for it.
    let data = folder.path().join("data");
    let store = rusqlite::Connection::open(data.join("punctual.db")).unwrap();
    let changed = store
        .execute(
            "UPDATE identities SET body = json_remove(body, '$.scram') WHERE kind IN (2, 4)",
            [],
        )
        .unwrap();
    assert!(changed >= 2);
    drop(store);
    let server = Server::start(&data, &["--pg", "127.0.0.1:0"]);
    let address = std::fs::read_to_string(data.join("server.sql")).unwrap();
    let address = address.trim();
    // The administrator's key needs nothing that is kept.
    assert!(Raw::login(address, "admin", &server.key, "default").is_ok());
    assert_eq!(Raw::login(address, "ann", &key, "acme").err().as_deref(), WRONG);
    let (status, _) =
        crate::serve::client::request(&server.address, &key, "GET", "/v1/whoami", None).unwrap();
    assert_eq!(status, 200);
    until(|| Raw::login(address, "ann", &key, "acme").ok());
    // And a password after a login with it.
    let body = json!({ "tenant": "acme", "user": "ann", "password": "correct horse" });
    assert_eq!(server.call("POST", "/v1/login", Some(&body)).0, 200);
    until(|| Raw::login(address, "ann", "correct horse", "acme").ok());
}

#[test]
fn b2_tenants_do_not_see_each_other() {
    let bed = Bed::new();
    bed.tenant("acme", "ann", "correct horse");
    bed.tenant("globex", "bob", "battery staple");
    let ann = |sql: &str| bed.psql("ann", "correct horse", "acme", &["-At", "-c", sql]);
    let bob = |sql: &str| bed.psql("bob", "battery staple", "globex", &["-At", "-c", sql]);
    let made = ann("CREATE JOB secret_plan SCHEDULE CRON '0 0 1 1 *' AS NOOP");
    assert!(made.contains("CREATE JOB"), "{made}");
    for question in [
        "SELECT job_name FROM sys.jobs",
        "SELECT job_name FROM sys.jobs WHERE job_name = 'secret_plan' OR 1 = 1",
        "SELECT a.job_name FROM sys.jobs a, sys.jobs b",
        "WITH x AS (SELECT * FROM sys.jobs) SELECT job_name FROM x",
        "SELECT (SELECT max(job_name) FROM sys.jobs) FROM sys.jobs",
        "COPY (SELECT job_name FROM sys.jobs) TO STDOUT",
        "SHOW JOBS",
    ] {
        assert_eq!(bob(question), "", "{question}");
        assert!(ann(question).contains("secret_plan"), "{question}");
    }
    // A job of another user is answered like an unknown one.
    let absent = bob("DROP JOB no_such_job").replace("no_such_job", "secret_plan");
    assert_eq!(bob("DROP JOB secret_plan"), absent);
    assert!(absent.contains("secret_plan"), "{absent}");
    assert!(ann("SHOW JOBS").contains("secret_plan"));
}
