//! A store whose database speaks TLS, and insists on it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use store::postgres::{PostgresOptions, PostgresStore};
use store::{SYSTEM, Store, StoreError};
use tempfile::TempDir;
use testbed::postgres::{Server, Setup};
use tokio_postgres::{Client, NoTls};

use crate::bench::Bench;
use crate::lab::Lab;
use crate::postgres_bench::PostgresBench;

/// Only a broken store takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// No client connects without TLS, and none to one of the databases without a certificate.
const HBA: &str = "\
local all all trust
hostssl certified all 127.0.0.1/32 cert
hostssl all all 127.0.0.1/32 scram-sha-256
";

const PASSWORD: &str = "canary-of-the-store";

/// A server whose certificate is for `db.test`, and the files of its clients.
struct Bed {
    server: Server,
    folder: TempDir,
    admin: Client,
}

fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(params, key))
}

/// A certificate and its key.
fn certificate(
    name: &str,
    hosts: Vec<String>,
    authority: &Issuer<'static, KeyPair>,
) -> (String, String) {
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

impl Bed {
    async fn start() -> Self {
        let (root, issuer) = authority("authority");
        let (other, others) = authority("another");
        let (public, private) = certificate("server", vec!["db.test".to_owned()], &issuer);
        let server = Setup::default()
            .tcp()
            .unwrap()
            .file("server.crt", &public)
            .file("server.key", &private)
            .file("root.crt", &root)
            .file("hba.conf", HBA)
            .set("ssl=on")
            .set("ssl_cert_file=../server.crt")
            .set("ssl_key_file=../server.key")
            .set("ssl_ca_file=../root.crt")
            .set("hba_file=hba.conf")
            .set("password_encryption=scram-sha-256")
            .start();
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("root.pem", &root);
        write("other.pem", &other);
        for (user, name, issuer) in [
            ("postgres", "postgres", &issuer),
            ("somebody", "somebody", &issuer),
            ("postgres", "forged", &others),
        ] {
            let (public, private) = certificate(user, Vec::new(), issuer);
            write(&format!("{name}.crt"), &public);
            write(&format!("{name}.key"), &private);
        }
        let (admin, connection) =
            tokio_postgres::connect(&server.url("postgres"), NoTls).await.unwrap();
        tokio::spawn(connection);
        admin.batch_execute(&format!("ALTER ROLE postgres PASSWORD '{PASSWORD}'")).await.unwrap();
        for database in ["plain", "certified"] {
            admin.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
        }
        Bed { server, folder, admin }
    }

    /// The address of a database; `DIR` in the parameters is the folder of the files.
    fn url(&self, host: &str, database: &str, parameters: &str) -> String {
        let address = self.server.address();
        let (number, port) = address.split_once(':').unwrap();
        let parameters = parameters.replace("DIR", self.path().to_str().unwrap());
        // The name is for the certificate, the number for the connection: no resolver is needed.
        format!(
            "postgres://postgres:{PASSWORD}@{host}:{port}/{database}?hostaddr={number}&{parameters}"
        )
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until every connection of so many stores is there, those for signals included;
    /// answers how many of all of them do not speak TLS.
    async fn unencrypted(&self, database: &str, stores: i64) -> i64 {
        let look = "SELECT count(*) FILTER (WHERE query LIKE '%LISTEN punctual; NOTIFY punctual'),
                count(*) FILTER (WHERE NOT ssl)
            FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
            WHERE datname = $1 AND application_name = 'punctual'";
        let looking = async {
            loop {
                let row = self.admin.query_one(look, &[&database]).await.unwrap();
                if row.get::<_, i64>(0) == stores {
                    return row.get(1);
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("the stores listen for signals")
    }
}

async fn open(url: &str) -> store::Result<PostgresStore> {
    PostgresStore::connect(url, PostgresOptions { pool_size: 2, ..PostgresOptions::default() })
        .await
}

#[tokio::test]
async fn tls_is_what_the_address_says() {
    let bed = Bed::start().await;
    let right = "sslmode=verify-full&sslrootcert=DIR/root.pem";
    let shown = |name: &str| format!("{right}&sslcert=DIR/{name}.crt&sslkey=DIR/{name}.key");
    let (ours, other, forged) = (shown("postgres"), shown("somebody"), shown("forged"));
    for (host, database, parameters, said) in [
        ("db.test", "plain", "", ["", ""]),
        ("db.test", "plain", "sslmode=prefer", ["", ""]),
        ("db.test", "plain", "sslmode=require", ["", ""]),
        ("other.test", "plain", "sslmode=require", ["", ""]),
        ("db.test", "plain", "sslmode=require&channel_binding=require", ["", ""]),
        ("other.test", "plain", "sslmode=verify-ca&sslrootcert=DIR/root.pem", ["", ""]),
        ("db.test", "plain", right, ["", ""]),
        ("db.test", "certified", &ours, ["", ""]),
        ("db.test", "plain", "sslmode=disable", ["pg_hba.conf", "sslmode=verify-full"]),
        (
            "other.test",
            "plain",
            right,
            ["not valid for name", "write the host name of the certificate"],
        ),
        (
            "db.test",
            "plain",
            "sslmode=verify-full&sslrootcert=DIR/other.pem",
            ["UnknownIssuer", "the file of sslrootcert must contain"],
        ),
        (
            "other.test",
            "plain",
            "sslmode=verify-ca&sslrootcert=DIR/other.pem",
            ["UnknownIssuer", "the file of sslrootcert must contain"],
        ),
        (
            "db.test",
            "plain",
            "sslmode=require&sslrootcert=DIR/other.pem",
            ["UnknownIssuer", "the file of sslrootcert must contain"],
        ),
        ("db.test", "plain", "sslmode=verify-full", ["ertificate", "sslrootcert=FILE"]),
        (
            "db.test",
            "plain",
            "sslmode=verify-full&sslrootcert=DIR/none.pem",
            ["sslrootcert", "none.pem cannot be read"],
        ),
        ("db.test", "certified", right, ["certificate", "sslcert and sslkey"]),
        ("db.test", "certified", &other, ["certificate", "must be that of the role"]),
        ("db.test", "certified", &forged, ["alert", "sslcert and sslkey"]),
        ("db.test", "plain", "sslmode=verify-ca", ["sslrootcert", "sslmode=verify-ca needs"]),
    ] {
        match open(&bed.url(host, database, parameters)).await {
            Ok(store) => {
                assert_eq!(said, ["", ""], "{host} {parameters}");
                store.now().await.unwrap();
                assert_eq!(bed.unencrypted(database, 1).await, 0, "{host} {parameters}");
            }
            Err(StoreError::Refused { problem, advice }) => {
                let text = format!("{problem}: {advice}");
                let all = said.iter().all(|word| !word.is_empty() && text.contains(word));
                assert!(all, "{host} {parameters}: {text}");
                assert!(!text.contains(PASSWORD), "{text}");
            }
            Err(error) => panic!("{host} {parameters}: {error}"),
        }
        // The next one counts its own connections.
        let gone = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
            WHERE application_name = 'punctual'";
        bed.admin.batch_execute(gone).await.unwrap();
    }
}

#[tokio::test]
async fn signals_travel_over_tls() {
    let bed = Bed::start().await;
    let url = bed.url("db.test", "plain", "sslmode=verify-full&sslrootcert=DIR/root.pem");
    let (one, other) = (open(&url).await.unwrap(), open(&url).await.unwrap());
    assert_eq!(bed.unencrypted("plain", 2).await, 0);
    let told = one.changed();
    other.define(&[], SYSTEM).await.unwrap();
    tokio::time::timeout(PATIENCE, told).await.expect("the other store hears of it");
}

/// As with libpq: a renewed certificate needs no restart.
#[tokio::test]
async fn files_are_read_for_every_connection() {
    let bed = Bed::start().await;
    let url = bed.url("db.test", "plain", "sslmode=verify-full&sslrootcert=DIR/root.pem");
    let store = open(&url).await.unwrap();
    let path = bed.path().join("root.pem");
    let root = fs::read(&path).unwrap();
    let other = fs::read(bed.path().join("other.pem")).unwrap();
    let cut = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
        WHERE application_name = 'punctual'";
    let until = async |is_right: &dyn Fn(&store::Result<jiff::Timestamp>) -> bool| {
        let looking = async {
            loop {
                let now = store.now().await;
                if is_right(&now) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("the file is read");
    };
    for (text, said) in [(&b""[..], "sslrootcert: "), (&other, "UnknownIssuer")] {
        fs::write(&path, text).unwrap();
        bed.admin.batch_execute(cut).await.unwrap();
        until(&|now| now.as_ref().is_err_and(|error| error.to_string().contains(said))).await;
    }
    fs::write(&path, root).unwrap();
    until(&|now| now.is_ok()).await;
}

/// The usual tests of a store are made without TLS. This is one of each kind with it.
#[tokio::test]
async fn work_is_done_over_tls() {
    let bed = Bed::start().await;
    let server: &'static Server = Box::leak(Box::new(bed.server));
    let bench = PostgresBench::empty_on(server).await;
    let address = server.address();
    let (number, port) = address.split_once(':').unwrap();
    let root = bed.folder.path().join("root.pem");
    let bench = bench.reached_by(format!(
        "postgres://postgres:{PASSWORD}@db.test:{port}/DATABASE?hostaddr={number}\
         &sslmode=verify-full&sslrootcert={}",
        root.display()
    ));
    let store = bench.handle().await;
    let lab = Lab::new(bench, store);
    let job = lab.job("job").await;
    let node = lab.node().await;
    let run = lab.run(&job, lab.ago(60).await);
    lab.store.submit(std::slice::from_ref(&run), None).await.unwrap();
    let claimed =
        lab.store.complete_and_claim(node, &[], crate::lab::want(1)).await.unwrap().claimed;
    let done = [crate::lab::completed(node, &claimed[0])];
    lab.store.complete_and_claim(node, &done, crate::lab::want(0)).await.unwrap();
    let view = lab.store.run(run.id).await.unwrap().unwrap();
    assert_eq!(view.state, domain::run::RunState::Ended(domain::run::Outcome::Completed));
    lab.close().await;
}
