//! Connections over TLS, and passwords.

use std::path::Path;

use agent::{Database, PostgresDatabase};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use testbed::postgres::{Server, Setup};

use super::bed::{Bed, connect};

const HBA: &str = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";

/// A server with TLS and passwords, and the certificate of its authority.
fn start() -> (Server, String) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = authority.self_signed(&key).unwrap().pem();
    let authority = Issuer::new(authority, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let server = Setup::default()
        .tcp()
        .unwrap()
        .file("server.crt", &certificate.pem())
        .file("server.key", &key.serialize_pem())
        .file("hba.conf", HBA)
        .set("ssl=on")
        .set("ssl_cert_file=../server.crt")
        .set("ssl_key_file=../server.key")
        .set("hba_file=hba.conf")
        .start();
    (server, root)
}

fn bed(url: &str, change: impl FnOnce(PostgresDatabase) -> PostgresDatabase) -> Bed {
    Bed::of(Database::Postgres(change(PostgresDatabase::parse(url).unwrap())))
}

fn trusting(url: &str, roots: &Path) -> Bed {
    bed(&format!("{url}&sslrootcert={}", roots.display()), |it| it)
}

#[tokio::test]
async fn certificates_and_passwords_are_checked() {
    let (server, root) = start();
    let admin = connect(&server.url("postgres")).await;
    // The password is the secret KEY, which no address could hold as it is.
    admin.batch_execute("ALTER ROLE postgres PASSWORD 'gr''ün;--'").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (roots, password) = (folder.path().join("root.pem"), folder.path().join("password"));
    std::fs::write(&roots, root).unwrap();
    std::fs::write(&password, "gr'ün;--\n").unwrap();
    let plain = server.tcp_url("postgres");
    let required = format!("{plain}?sslmode=require");
    let secret = required.replace("postgres@", "postgres:${secrets.KEY}@");
    let question = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

    let ran = trusting(&secret, &roots).sql(question).await;
    assert_eq!(ran.done().rows(), json!([{"ssl": true}]));
    let by_file = bed(&format!("{required}&sslrootcert={}", roots.display()), |database| {
        database.password_file(&password)
    });
    assert_eq!(by_file.sql(question).await.done().rows(), json!([{"ssl": true}]));
    // A running statement is stopped over TLS as well.
    let running = by_file.start(super::bed::assignment(super::bed::script("SELECT pg_sleep(600)")));
    let sleeps = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    while admin.query(sleeps, &[]).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    running.stop.send(Some(domain::run::AttemptEnd::Cancelled)).unwrap();
    assert_eq!(running.ran.await.unwrap().code(), "SQLSTATE_57014");

    for (what, bed, code, said) in [
        (
            "an authority that we do not know",
            bed(&secret, |it| it),
            "CONNECTION_FAILED",
            "ertificate",
        ),
        (
            "a name that the certificate does not have",
            trusting(&secret.replace("127.0.0.1", "localhost"), &roots),
            "CONNECTION_FAILED",
            "not valid for name",
        ),
        ("no password", trusting(&required, &roots), "CONNECTION_FAILED", "password missing"),
        (
            "a wrong password",
            trusting(&secret.replace("${secrets.KEY}", "wrong"), &roots),
            "SQLSTATE_28P01",
            "password authentication failed",
        ),
        (
            "a secret that is not there",
            trusting(&secret.replace("KEY", "NONE"), &roots),
            "SECRET_NOT_FOUND",
            "there is no secret named \"NONE\"",
        ),
        (
            "a password file that is not there",
            bed(&required, |it| it.password_file("/nowhere/password")),
            "SECRET_UNREADABLE",
            "/nowhere/password cannot be read",
        ),
        (
            "certificates that are not there",
            trusting(&secret, Path::new("/nowhere/root.pem")),
            "TLS_UNAVAILABLE",
            "/nowhere/root.pem cannot be read",
        ),
    ] {
        let ran = bed.sql("SELECT 1").await;
        let (found, message) = ran.error();
        assert_eq!(found, code, "{what}: {message}");
        assert!(message.contains(said), "{what}: {message}");
        assert!(!message.contains("grün"), "{message}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused() {
    let server = Setup::default().tcp().unwrap().start();
    let plain = server.tcp_url("postgres");
    let ran = bed(&format!("{plain}?sslmode=require"), |it| it).sql("SELECT 1").await;
    let (code, message) = ran.error();
    assert_eq!(code, "CONNECTION_FAILED");
    assert!(message.contains("server does not support TLS"), "{message}");
    bed(&plain, |it| it).sql("SELECT 1").await.done();
}
