//! The drivers that people use: they log in, prepare, bind, read types and errors. Each has a
//! program of `tests/sql`, or a test here.

use super::{Bed, file, program, tool};

/// Output of every driver.
const SAID: &str = "\
created
rows hello CRON
number 42
null None
error 42703 position
again hello
";

fn run(mut command: std::process::Command) -> String {
    let output = command.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

#[test]
fn psycopg_binds_prepares_and_reads() {
    let bed = Bed::new();
    let mut python = program(tool("python/bin/python"));
    python.arg(file("psycopg_walk.py")).arg(&bed.address).arg(&bed.server.key);
    assert_eq!(run(python), SAID);
}

/// Output of the program with transactions.
const TRANSACTIONS_SAID: &str = "\
inside 0
committed 100
rolled back 100
refused 2BP01
kept 100
overtaken 42710
first None
dropped 1
";

#[test]
fn a_hundred_changes_are_one_transaction_on_sqlite() {
    let bed = Bed::new();
    let mut python = program(tool("python/bin/python"));
    python.arg(file("transaction_walk.py")).arg(&bed.address).arg(&bed.server.key);
    assert_eq!(run(python), TRANSACTIONS_SAID);
}

#[test]
fn a_hundred_changes_are_one_transaction_on_postgres() {
    let postgres = testbed::postgres::Setup::default().start();
    crate::cluster::member::create_database(&postgres.url("postgres"), "transactions");
    let bed = Bed::with(&["--store", &postgres.url("transactions")], &[]);
    let mut python = program(tool("python/bin/python"));
    python.arg(file("transaction_walk.py")).arg(&bed.address).arg(&bed.server.key);
    assert_eq!(run(python), TRANSACTIONS_SAID);
}

/// pgcli reads the catalog for its completion before the first prompt, and shows what psql does.
#[test]
fn pgcli_completes_lists_and_asks() {
    let bed = Bed::new();
    let (host, port) = bed.host_and_port();
    let asked = |text: &str| {
        let mut pgcli = program(tool("python/bin/pgcli"));
        pgcli
            .args(["-h", host, "-p", port, "-U", "admin", "-d", "default", "--warn", "off"])
            .args(["--less-chatty", "-c", text])
            .env("PGPASSWORD", &bed.server.key)
            .env("HOME", bed.folder.path());
        run(pgcli)
    };
    asked("CREATE JOB hello SCHEDULE CRON '0 0 1 1 *' AS NOOP");
    for (text, parts) in [
        ("SELECT job_name, state FROM sys.jobs", vec!["hello", "ENABLED"]),
        ("\\dt sys.*", vec!["job_runs", "ledger"]),
        ("\\d sys.jobs", vec!["job_uuid", "uuid"]),
        ("\\l", vec!["default"]),
        ("\\dn", vec!["sys"]),
        ("\\du", vec!["admin"]),
        ("\\df", vec!["Schema"]),
        ("\\dv sys.*", vec!["Schema"]),
        ("EXPLAIN JOB hello", vec!["health", "next"]),
        ("SHOW JOBS", vec!["hello"]),
    ] {
        let said = asked(text);
        for part in parts {
            assert!(said.contains(part), "{text}: {part:?} is missing in {said}");
        }
    }
}

/// Output of the program for SQLAlchemy.
const SQLALCHEMY_SAID: &str = "\
connected 1
nested 2
schemas True
tables True
columns TEXT UUID
keys []
indexes [] []
rows [('hello',)]
";

#[test]
fn sqlalchemy_connects_and_reflects() {
    let bed = Bed::new();
    let mut python = program(tool("python/bin/python"));
    python.arg(file("sqlalchemy_walk.py")).arg(&bed.address).arg(&bed.server.key);
    assert_eq!(run(python), SQLALCHEMY_SAID);
}

#[test]
fn asyncpg_binds_prepares_and_reads() {
    let bed = Bed::new();
    let mut python = program(tool("python/bin/python"));
    python.arg(file("asyncpg_walk.py")).arg(&bed.address).arg(&bed.server.key);
    assert_eq!(run(python), SAID);
}

#[test]
fn node_postgres_binds_prepares_and_reads() {
    let bed = Bed::new();
    let modules = tool("node/node_modules");
    std::os::unix::fs::symlink(&modules, bed.folder.path().join("node_modules")).unwrap();
    std::fs::copy(file("node_walk.mjs"), bed.folder.path().join("walk.mjs")).unwrap();
    let mut node = program("node");
    node.arg("walk.mjs").args([&bed.address, &bed.server.key]).current_dir(bed.folder.path());
    assert_eq!(run(node), SAID);
}

/// The driver of JDBC, where Debian keeps it.
const JDBC: &str = "/usr/share/java/postgresql.jar";

/// Output of the program for JDBC.
const JDBC_SAID: &str = "\
created: 0
altered: 0
several: 1, done, 2
started: 1
explained: true
valid: true
parameters: uuid
prepared: right right right right right right right right
at the server: true
changed: 7
values: it's \\ é -41 1099511627776 t 1.5 2026-01-02 03:04:05.5+00 12.5 00000000-0000-0001-0000-000000000002 3 null
arrays: 1
little by little: 25
no more than: 3
two changes: 0A000
block: hello, kept
error: 42703 at 8
error: 42601 at 14
error: 42704 at 10
error: 0A000 at 1
batch: [0, 0]
batch: 42710
batch: 8
batch: b1 6, b2 7, b3 5
product: PostgreSQL 15
catalogs: default
schemas: information_schema, pg_catalog, sys
tables: job_dependencies job_run_acks job_runs job_secrets jobs
columns: job_uuid:uuid depends_on_job_uuid:uuid job_name:text depends_on_job_name:text condition:text dependency_rule:text
keys: 0
indexes: 0
imported: 0
exported: 0
best row: 0
version columns: 1
procedures: 0
functions: 0
user types: 0
types: true
name length: 63
keywords: true
privileges: null sys jobs punctual PUBLIC SELECT
timeout: 57014
cancelled: 57014 ERROR: canceling statement due to user request
afterwards: fine
heard: punctual_jobs true
copied: 3 job_name,priority;b1,6;b2,7;b3,5
dropped: 0
left: 0
tls: ann default
wrong password: 28P01
";

#[test]
fn jdbc_binds_prepares_reads_and_asks_what_tools_ask() {
    assert!(
        std::path::Path::new(JDBC).exists(),
        "{JDBC} is missing: `cargo xtask needs` installs it"
    );
    let folder = tempfile::tempdir().unwrap();
    crate::serve::tls::certificate(folder.path());
    let file_of = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (file_of("cert.pem"), file_of("key.pem"));
    let bed = Bed::with(&["--tls-cert", &cert, "--tls-key", &key], &[]);
    let made = bed.ask("CREATE USER ann PASSWORD 'correct horse'");
    assert_eq!(made, "CREATE ROLE\n");
    let mut java = program("java");
    // A fast start of the JVM matters more here than fast code.
    java.args(["-XX:TieredStopAtLevel=1", "-Xshare:auto"])
        .args(["-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Duser.timezone=UTC"])
        .args(["-cp", JDBC])
        .arg(file("JdbcWalk.java"))
        .args([&bed.address, &bed.server.key, "ann", "correct horse"])
        .env("LC_ALL", "C.UTF-8");
    let said = run(java);
    for (said, wanted) in said.lines().zip(JDBC_SAID.lines()) {
        assert_eq!(said, wanted);
    }
    assert_eq!(said, JDBC_SAID);
}

#[test]
fn tokio_postgres_binds_prepares_and_reads() {
    use tokio_postgres::NoTls;
    let bed = Bed::new();
    let (host, port) = bed.host_and_port();
    let config =
        format!("host={host} port={port} user=admin dbname=default password={}", bed.server.key);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
        tokio::spawn(connection);
        let done = client.execute("CREATE JOB hello SCHEDULE CRON '0 0 1 1 *' AS NOOP", &[]).await;
        assert_eq!(done.unwrap(), 0);
        let rows = client
            .query("SELECT job_name, job_uuid FROM sys.jobs WHERE job_name = $1", &[&"hello"])
            .await
            .unwrap();
        let (name, id): (&str, uuid::Uuid) = (rows[0].get(0), rows[0].get(1));
        assert_eq!(name, "hello");
        let again = client
            .query_one("SELECT job_name FROM sys.jobs WHERE job_uuid = $1", &[&id])
            .await
            .unwrap();
        assert_eq!(again.get::<_, &str>(0), "hello");
        let number = client.query_one("SELECT $1::int8 + 1", &[&41_i64]).await.unwrap();
        assert_eq!(number.get::<_, i64>(0), 42);
        let error = client.query("SELECT nope FROM sys.jobs", &[]).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "42703");
        assert!(error.position().is_some());
        // A portal gives its rows little by little.
        let block = client.transaction().await.unwrap();
        let numbers = "SELECT i FROM (VALUES (1), (2), (3), (4), (5)) AS t(i)";
        let numbers = block.prepare(numbers).await.unwrap();
        let portal = block.bind(&numbers, &[]).await.unwrap();
        let first = block.query_portal(&portal, 2).await.unwrap();
        let second = block.query_portal(&portal, 2).await.unwrap();
        let rest = block.query_portal(&portal, 0).await.unwrap();
        assert_eq!([first.len(), second.len(), rest.len()], [2, 2, 1]);
        block.rollback().await.unwrap();
        // A statement that takes too long is cancelled from elsewhere.
        let token = client.cancel_token();
        let slow = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) \
                    SELECT count(*) FROM n";
        let slow = client.query(slow, &[]);
        let cancel = async {
            loop {
                token.cancel_query(NoTls).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::select! { ended = slow => ended, () = cancel => unreachable!() };
        assert_eq!(ended.unwrap_err().code().unwrap().code(), "57014");
    });
}
