//! Names and values that want to be more than names and values (RELIABILITY.md C1 to C3).

use super::Bed;
use super::raw::Raw;

#[test]
fn c1_a_name_is_a_name_or_it_is_refused() {
    let bed = Bed::new();
    let mut raw = Raw::login(&bed.address, "admin", &bed.server.key, "default").unwrap();
    let make = |name: &str| format!("CREATE JOB {name} SCHEDULE CRON '0 0 1 1 *' AS NOOP");
    assert_eq!(raw.query(&make("bystander")), ["CREATE JOB", "ready"]);
    let long = format!("\"{}\"", "x".repeat(10_000));
    let names = [
        "\"\"\"; DROP JOB bystander; --\"",
        "\"a'; DROP JOB bystander; --\"",
        "\"byst\u{430}nder\"",
        "\"\u{202e}rednatsyb\"",
        "\"tab\tnew\nline\"",
        "\"\"",
        &long,
        "a; DROP JOB nothing; --",
    ];
    for name in names {
        let answers = raw.query(&make(name));
        assert_eq!(answers.last().map(String::as_str), Some("ready"), "{name:?}");
        // A job that was created under a name is found under that name, and nothing else has
        // happened.
        if answers[0] == "CREATE JOB" {
            assert_eq!(raw.query(&format!("DROP JOB {name}"))[0], "DROP JOB", "{name:?}");
        }
        assert_eq!(raw.query("SHOW CREATE JOB bystander"), ["SHOW", "ready"], "{name:?}");
    }
    let left = bed.ask("SELECT job_name FROM sys.jobs");
    assert_eq!(left, "bystander\n");
}

#[test]
fn c2_the_catalog_tells_nobody_about_others() {
    let bed = Bed::new();
    bed.tenant("acme", "ann", "correct horse");
    bed.tenant("globex", "bob", "battery staple");
    for question in [
        "SELECT * FROM pg_catalog.pg_roles",
        "SELECT * FROM pg_catalog.pg_user",
        "SELECT * FROM pg_catalog.pg_authid",
        "SELECT * FROM pg_catalog.pg_stat_activity",
        "SELECT * FROM sys.users",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM identities",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT pg_read_file('/etc/passwd')",
        "ATTACH DATABASE '/tmp/x' AS x",
        "PRAGMA database_list",
        "COPY sys.jobs FROM STDIN",
        "COPY (SELECT 1) TO '/tmp/x'",
        "COPY (SELECT 1) TO PROGRAM 'id'",
    ] {
        let said = bed.psql("bob", "battery staple", "globex", &["-At", "-c", question]);
        assert!(!said.contains("ann") && !said.contains("root:"), "{question}: {said}");
    }
}

#[test]
fn c3_a_value_is_a_value() {
    use tokio_postgres::NoTls;
    let bed = Bed::new();
    let (host, port) = bed.host_and_port();
    let config =
        format!("host={host} port={port} user=admin dbname=default password={}", bed.server.key);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
        tokio::spawn(connection);
        let make = "CREATE JOB bystander SCHEDULE CRON '0 0 1 1 *' AS NOOP";
        client.execute(make, &[]).await.unwrap();
        for value in ["' OR '1'='1", "x'; DROP JOB bystander; --", "$1", "\\'; --", "\u{0}x"] {
            let question = "SELECT job_name FROM sys.jobs WHERE job_name = $1 ORDER BY 1 DESC";
            // A zero cannot be in a text, and is refused.
            match client.query(question, &[&value]).await {
                Ok(rows) => assert!(rows.is_empty(), "{value:?}"),
                Err(error) => assert_eq!(error.code().unwrap().code(), "22P03", "{value:?}"),
            }
        }
        let kept = client.query("SELECT job_name FROM sys.jobs", &[]).await.unwrap();
        assert_eq!(kept.len(), 1);
    });
}
