//! A private PostgreSQL server, started once for all tests of a binary, or with settings of its
//! own.
//!
//! ```text
//!   tests ──stdin──▶ guard (sh) ──▶ postgres, in a temporary folder, on a Unix socket
//! ```
//!
//! Nothing runs at the end of a test binary, and a panic or a kill ends it anyhow. So the server
//! belongs to a guard, a shell that waits for the end of its input: when the tests are gone, for
//! whichever reason, it stops the server and removes the folder.

mod control;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, io};

pub use control::Stop;

/// `$as` before a command makes it the server's: PostgreSQL refuses to run as root.
const OWNER: &str = r#"
as=""
if [ "$(id -u)" = 0 ]; then
    if command -v setpriv > /dev/null; then
        as="setpriv --reuid postgres --regid postgres --init-groups --"
    else
        as="runuser -u postgres --"
    fi
fi
cd "$dir"
"#;

/// The script of the guard. It ignores the signals of the terminal, which are for the tests, and
/// outlives them. The server that it ends may be another one than it started ([`Server::restart`]).
const GUARD: &str = r#"
trap '' INT TERM HUP
if [ "$(id -u)" = 0 ]; then
    chown -R postgres "$dir" || exit
fi
make() {
    if [ -n "$from" ]; then
        $as "$bin/pg_basebackup" --pgdata "$dir/data" --dbname "$from" --checkpoint fast \
            --wal-method stream --write-recovery-conf --no-sync 2>&1
    else
        $as "$bin/initdb" --pgdata "$dir/data" --username postgres --auth trust --no-sync \
            --encoding UTF8 --locale C 2>&1
    fi
}
if make; then
    $as "$bin/postgres" -D "$dir/data" -k "$dir" -c listen_addresses= -c fsync=off \
        -c max_connections=300 -c logging_collector=off -c log_destination=stderr \
        -c lc_messages=C "$@" 2>&1 &
    # Until the tests are gone.
    cat > /dev/null
    server=$(head -n 1 "$dir/data/postmaster.pid" 2> /dev/null)
    [ -z "$server" ] || kill -QUIT "$server"
    wait
    looks=0
    while [ -n "$server" ] && kill -0 "$server" 2> /dev/null && [ $looks -lt 100 ]; do
        looks=$((looks + 1))
        sleep 0.1
    done
fi
cd /
rm -rf "$dir"
"#;

/// Settings and files of a server besides the defaults.
#[derive(Default)]
pub struct Setup {
    settings: Vec<String>,
    files: Vec<(String, String)>,
    port: Option<u16>,
    from: Option<String>,
}

impl Setup {
    /// A setting, `name=value`; the last one of a name counts.
    pub fn set(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// A file in the server's folder, which only the server can read. Most settings mean it when
    /// they say `../name`, because the server works in the folder `data` beside it; `hba_file`
    /// means it when it says `name`.
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Listens on a free port of 127.0.0.1 too.
    pub fn tcp(mut self) -> io::Result<Self> {
        let port = free_port()?;
        self.port = Some(port);
        Ok(self.set("listen_addresses=127.0.0.1").set(&format!("port={port}")))
    }

    /// Begins as a copy of another server, and follows it until it is promoted.
    pub fn copy_of(mut self, primary: &Server) -> Self {
        self.from = Some(primary.url("postgres"));
        self
    }

    /// Starts the server.
    pub fn start(self) -> Server {
        Server::start_with(self)
    }
}

/// A port of 127.0.0.1 on which no process listens.
///
/// It lies below the range from which the kernel gives ports to connections and to those who ask
/// for any: such a port could be taken between this look and its use. Processes that look at the
/// same time begin at different places.
pub fn free_port() -> io::Result<u16> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end = range.split_whitespace().next().and_then(|first| first.parse().ok());
    let (first, end) = (10_000, end.unwrap_or(32_768_u32).max(10_001));
    let start = std::process::id().wrapping_mul(0x9e37_79b9) >> 8;
    for _ in 0..end - first {
        // Each port is tried once, so that two calls never answer the same one.
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        let place = start.wrapping_add(asked) % (end - first);
        let port = u16::try_from(first + place).unwrap_or(u16::MAX);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    // All of them are taken: any other.
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Kills a process. Answers whether it was still there: a server that is starting anew may have
/// ended the process itself in the meantime.
pub fn kill(process: i32) -> bool {
    let mut kill = Command::new("kill");
    kill.args(["-9", &process.to_string()]).stderr(Stdio::null());
    kill.status().expect("the program `kill` starts").success()
}

/// A running server.
pub struct Server {
    folder: PathBuf,
    port: Option<u16>,
    /// The guard waits for its end, which is that of this process.
    _tests: ChildStdin,
}

impl Server {
    /// The server that all tests share.
    pub fn shared() -> &'static Server {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(Server::start)
    }

    /// A server of one's own.
    pub fn start() -> Server {
        Setup::default().start()
    }

    /// The address of a database.
    pub fn url(&self, database: &str) -> String {
        let port = self.port.map(|port| format!("&port={port}")).unwrap_or_default();
        format!("postgresql:///{database}?user=postgres&host={}{port}", self.folder.display())
    }

    /// The address of a database on a server that was set up for TCP.
    pub fn tcp_url(&self, database: &str) -> String {
        format!("postgresql://postgres@{}/{database}", self.address())
    }

    /// Where a server that was set up for TCP listens.
    pub fn address(&self) -> String {
        let port = self.port.expect("the server was set up with `tcp`");
        format!("127.0.0.1:{port}")
    }

    /// The server's first process.
    pub fn process(&self) -> u32 {
        let file = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        file.lines().next().and_then(|line| line.parse().ok()).expect("the file begins with it")
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

    fn start_with(setup: Setup) -> Server {
        let folder = tempfile::Builder::new().prefix("punctual-pg-").tempdir().unwrap().keep();
        for (name, text) in &setup.files {
            let mut options = OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(folder.join(name));
            file.and_then(|mut file| file.write_all(text.as_bytes())).unwrap();
        }
        let settings = setup.settings.iter().flat_map(|setting| ["-c", setting]);
        let mut guard = Command::new("sh")
            .args(["-c", &format!("{OWNER}{GUARD}"), "guard"])
            .args(settings)
            .env("from", setup.from.unwrap_or_default())
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
            if line.contains("ready to accept") {
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
        Server { folder, port: setup.port, _tests: tests }
    }
}

/// The folder of the server's programs: `PG_BIN`, the path, or Debian's place for them.
pub fn programs() -> PathBuf {
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
    // The program on the path may be a link; the other programs are beside its target.
    let real = |folder: PathBuf| {
        let initdb = fs::canonicalize(folder.join("initdb")).ok()?;
        initdb.parent().filter(|real| real.join("postgres").is_file()).map(Path::to_owned)
    };
    folders.find_map(real).expect(
        "these tests need the PostgreSQL server: `cargo xtask test` installs it, or set \
         PG_BIN to the folder that holds `initdb` and `postgres`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_that_has_gone_is_not_killed_again() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = i32::try_from(child.id()).unwrap();
        assert!(kill(process));
        child.wait().unwrap();
        assert!(!kill(process));
    }

    #[test]
    fn free_ports_differ_and_can_be_bound() {
        let ports: Vec<u16> = (0..20).map(|_| free_port().unwrap()).collect();
        let listeners: Vec<_> =
            ports.iter().map(|port| TcpListener::bind(("127.0.0.1", *port)).unwrap()).collect();
        assert_eq!(listeners.len(), 20);
    }
}
