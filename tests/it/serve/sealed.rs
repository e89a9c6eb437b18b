//! Sealed values of databases and alert channels: encrypted where they are stored, and used as they
//! were given.

use std::fs;
use std::path::Path;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use notify::SigningSecret;
use serde_json::{Value, json};
use testbed::postgres::Setup;

use super::process::Server;
use super::secrets::{executed, files, forms};
use super::sink::{header, received, sink};

const PASSWORD: &str = "canary-database-0123456789";
const SIGNS: &str = "canary-of-the-channel-0123456789";
const PATH: &str = "canary-of-the-address-0123456789";

/// Searches all files of a folder, one of which must be there.
fn search(folder: &Path, one: &str) {
    let mut found = Vec::new();
    files(folder, &mut found);
    assert!(found.iter().any(|path| path.ends_with(one)), "{found:?}");
    for path in found {
        let bytes = fs::read(&path).unwrap();
        for form in [PASSWORD, SIGNS, PATH].into_iter().flat_map(forms) {
            let found = bytes.windows(form.len()).any(|window| window == form);
            assert!(!found, "{} holds {:?}", path.display(), String::from_utf8_lossy(&form));
        }
    }
}

fn set_password(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let statement = format!("ALTER ROLE postgres PASSWORD '{PASSWORD}'");
        client.batch_execute(&statement).await.unwrap();
    });
}

fn call(server: &Server, method: &str, path: &str, body: Option<&Value>) -> Value {
    let (status, said) = server.call(method, path, body);
    assert!((200..300).contains(&status), "{method} {path}: {status} {said}");
    said
}

fn connects(server: &Server) -> bool {
    call(server, "POST", "/v1/databases/sales/test", None)["ok"] == true
}

#[test]
fn what_databases_and_channels_keep_is_sealed_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let hba = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    let setup = Setup::default().tcp().unwrap().file("hba.conf", hba).set("hba_file=hba.conf");
    let postgres = setup.start();
    set_password(&postgres.url("postgres"));
    let environment = [("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"), ("RUST_LOG", "trace")];
    let server = Server::start_with(&data, &[], &environment);

    let with = |word: &str| {
        postgres.tcp_url("postgres").replace("postgres@", &format!("postgres:{word}@"))
    };
    let database = json!({"name": "sales", "url": with(PASSWORD)});
    let mut shown = call(&server, "POST", "/v1/databases", Some(&database));
    assert_eq!(shown["url"], with("***"));
    let job = json!({
        "name": "sql", "job_type": "MANUAL", "retry_config": {"max_attempts": 1},
        "payload": {"type": "SQL", "database": "sales", "sql": "SELECT 1"},
    });
    let run = executed(&server, &job);
    assert_eq!(run["status"], "COMPLETED", "{run}");
    // A password that comes back hidden stays.
    shown["description"] = json!("changed");
    call(&server, "PUT", "/v1/databases/sales", Some(&shown));
    assert!(connects(&server));
    let rename = json!({"description": null});
    call(&server, "PATCH", "/v1/databases/sales", Some(&rename));
    assert!(connects(&server));
    // It counts: another one is refused.
    call(&server, "PATCH", "/v1/databases/sales", Some(&json!({"url": with("another-one")})));
    assert!(!connects(&server));
    call(&server, "PATCH", "/v1/databases/sales", Some(&json!({"url": with(PASSWORD)})));
    assert!(connects(&server));

    let (sink, address) = sink();
    let secret = |text: &str| format!("whsec_{}", STANDARD.encode(text));
    let channel =
        json!({"name": "ops", "url": format!("http://{address}/{PATH}"), "secret": secret(SIGNS)});
    let shown = call(&server, "POST", "/v1/alert-channels", Some(&channel));
    assert_eq!(shown["url"], format!("http://{address}/***"));
    let signs = |secret: &str| {
        let sink = sink.try_clone().unwrap();
        let arrived = thread::spawn(move || received(&sink, "204 No Content"));
        let tried = call(&server, "POST", "/v1/alert-channels/ops/test", None);
        assert_eq!(tried["ok"], true, "{tried}");
        let (head, body) = arrived.join().unwrap();
        assert!(head.starts_with(&format!("POST /{PATH} HTTP/1.1")), "{head}");
        let timestamp = header(&head, "webhook-timestamp").parse().unwrap();
        let signature = SigningSecret::parse(secret).unwrap().sign(
            header(&head, "webhook-id"),
            timestamp,
            &body,
        );
        assert_eq!(header(&head, "webhook-signature"), signature);
    };
    signs(&secret(SIGNS));
    call(&server, "PUT", "/v1/alert-channels/ops", Some(&shown));
    signs(&secret(SIGNS));
    let other = secret("another secret of the channel");
    call(&server, "PATCH", "/v1/alert-channels/ops", Some(&json!({"secret": other})));
    signs(&other);
    call(&server, "PATCH", "/v1/alert-channels/ops", Some(&json!({"secret": secret(SIGNS)})));

    // They are not in the list of secrets, and old values are gone. A new master key rewraps them,
    // too.
    assert_eq!(call(&server, "GET", "/v1/secrets", None)["data"], json!([]));
    let rotate = || call(&server, "POST", "/v1/secrets:rotate-master", None)["rewrapped"].clone();
    assert_eq!(rotate(), 3);
    assert!(connects(&server));
    signs(&secret(SIGNS));
    search(&data, "punctual.db-wal");
    for path in ["/v1/databases/sales", "/v1/alert-channels/ops"] {
        call(&server, "DELETE", path, None);
    }
    assert_eq!(rotate(), 0);
    server.terminate();
    let log = server.rest_of_log();
    assert!(log.contains("TRACE"), "the log says everything");
    for form in [PASSWORD, SIGNS, PATH].into_iter().flat_map(forms) {
        let form = String::from_utf8(form).unwrap();
        assert!(!log.contains(&form), "the log holds {form}");
    }
    search(&data, "punctual.db");
}
