//! A server whose store is a PostgreSQL that insists on TLS.

use serde_json::json;
use testbed::postgres::Setup;

use super::process::Server;
use super::secrets::executed;
use super::tls::certificate;
use crate::cluster::member::ask;

const HBA: &str = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
const PASSWORD: &str = "canary-of-the-store";

#[test]
fn a_job_runs_on_a_store_that_insists_on_tls() {
    let folder = tempfile::tempdir().unwrap();
    let made = certificate(folder.path());
    let postgres = Setup::default()
        .tcp()
        .unwrap()
        .file("server.crt", &made.cert.pem())
        .file("server.key", &made.signing_key.serialize_pem())
        .file("hba.conf", HBA)
        .set("ssl=on")
        .set("ssl_cert_file=../server.crt")
        .set("ssl_key_file=../server.key")
        .set("hba_file=hba.conf")
        .start();
    let admin = postgres.url("postgres");
    let password = format!("ALTER ROLE postgres PASSWORD '{PASSWORD}'");
    ask(&admin, async |client| client.batch_execute(&password).await).unwrap();
    let address = postgres.address();
    let (number, port) = address.split_once(':').unwrap();
    let root = folder.path().join("cert.pem");
    let store = format!(
        "postgres://postgres:{PASSWORD}@localhost:{port}/postgres?hostaddr={number}\
         &sslmode=verify-full&sslrootcert={}",
        root.display()
    );
    let data = folder.path().join("data");
    let server = Server::start_with(&data, &["--store", &store], &[("RUST_LOG", "trace")]);
    let job = json!({"name": "noop", "job_type": "MANUAL", "payload": {"type": "NOOP"}});
    assert_eq!(executed(&server, &job)["status"], "COMPLETED");
    let look = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl)
        FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE application_name = 'punctual'";
    let row = ask(&admin, async |client| client.query_one(look, &[]).await).unwrap();
    let (encrypted, others): (i64, i64) = (row.get(0), row.get(1));
    assert!(encrypted > 0 && others == 0, "{encrypted} with TLS, {others} without");
    server.terminate();
    let log = server.rest_of_log();
    assert!(!log.contains(PASSWORD), "the password is in the log");
}
