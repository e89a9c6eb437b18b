//! A private PostgreSQL server, started once for all tests of this binary.
//!
//! ```text
//!   tests ──stdin──▶ guard (sh) ──▶ postgres, in a temporary folder, on a Unix socket only
//! ```
//!
//! Nothing runs at the end of a test binary, and a panic or a kill ends it anyhow. So the server
//! belongs to a guard, a shell that waits for the end of its input: when the tests are gone, for
//! whichever reason, it stops the server and removes the folder.
#![expect(clippy::disallowed_methods, reason = "the server is a process, and PG_BIN may say where")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs};

use store::StoreError;
use tokio_postgres::{Client, NoTls};

/// What the guard does. Signals of the terminal are for the tests; the guard outlives them.
const GUARD: &str = r#"
trap '' INT TERM HUP
as=""
if [ "$(id -u)" = 0 ]; then
    # PostgreSQL refuses to run as root.
    chown postgres "$dir" || exit
    if command -v setpriv > /dev/null; then
        as="setpriv --reuid postgres --regid postgres --init-groups --"
    else
        as="runuser -u postgres --"
    fi
fi
cd "$dir"
$as "$bin/initdb" --pgdata "$dir/data" --username postgres --auth trust --no-sync \
    --encoding UTF8 --locale C 2>&1 &&
    {
        $as "$bin/postgres" -D "$dir/data" -k "$dir" -c listen_addresses= -c fsync=off \
            -c max_connections=300 -c logging_collector=off -c log_destination=stderr \
            -c lc_messages=C 2>&1 &
        server=$!
        # Until the tests are gone.
        cat > /dev/null
        kill -QUIT $server
        wait $server
    }
cd /
rm -rf "$dir"
"#;

/// A running server.
pub struct Server {
    folder: PathBuf,
    /// The guard waits for its end, which is that of this process.
    _tests: ChildStdin,
}

impl Server {
    /// The server that all tests share.
    pub fn shared() -> &'static Server {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(Server::start)
    }

    /// The address of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql:///{database}?user=postgres&host={}", self.folder.display())
    }

    /// The tables of a database and what is in them, as statements; needs `pg_dump`.
    pub fn dump_with_rows(&self, url: &str) -> String {
        let dump = Command::new(programs().join("pg_dump"))
            .args(["--inserts", "--no-owner", "--schema", "punctual", url])
            .output()
            .expect("pg_dump is beside the server");
        assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
        let dump = String::from_utf8(dump.stdout).unwrap();
        // Not words of SQL, and settings that older servers do not know.
        let skipped = ["\\", "--", "SET ", "SELECT pg_catalog.set_config"];
        let kept = dump.lines().filter(|line| {
            !line.is_empty() && !skipped.iter().any(|start| line.starts_with(start))
        });
        kept.map(|line| format!("{line}\n")).collect()
    }

    /// A connection and the number of the process that serves it, if the server takes one.
    pub async fn process(&self, url: &str) -> store::Result<(Client, i32)> {
        let failed = |error: tokio_postgres::Error| StoreError::Unavailable(error.to_string());
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
        tokio::spawn(connection);
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await.map_err(failed)?;
        Ok((client, row.get(0)))
    }

    /// Starts a server.
    pub fn start() -> Server {
        let folder = tempfile::Builder::new().prefix("punctual-pg-").tempdir().unwrap().keep();
        let mut guard = Command::new("sh")
            .args(["-c", GUARD])
            .env("dir", &folder)
            .env("bin", programs())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let mut output = BufReader::new(guard.stdout.take().unwrap()).lines();
        let mut seen = String::new();
        loop {
            let Some(Ok(line)) = output.next() else {
                panic!("the PostgreSQL server of the tests did not start:\n{seen}");
            };
            if line.contains("ready to accept connections") {
                break;
            }
            seen += &line;
            seen.push('\n');
        }
        let tests = guard.stdin.take().unwrap();
        // A full pipe would stop the server.
        std::thread::spawn(move || {
            output.for_each(drop);
            guard.wait()
        });
        Server { folder, _tests: tests }
    }
}

/// The folder of the server's programs: `PG_BIN`, the path, or Debian's place for them.
fn programs() -> PathBuf {
    let named = env::var_os("PG_BIN").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    debian.sort();
    let mut folders = named.into_iter().chain(env::split_paths(&path)).chain(debian);
    // What is on the path may be a link; the other programs are beside what it leads to.
    let real = |folder: PathBuf| {
        let initdb = fs::canonicalize(folder.join("initdb")).ok()?;
        initdb.parent().filter(|real| real.join("postgres").is_file()).map(Path::to_owned)
    };
    folders.find_map(real).expect(
        "the tests of the PostgreSQL store need its server: `cargo xtask test` installs it, or set \
         PG_BIN to the folder that holds `initdb` and `postgres`",
    )
}
