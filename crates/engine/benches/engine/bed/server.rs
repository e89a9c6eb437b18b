//! A PostgreSQL server of its own, in a temporary folder, with the peers' rules.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

/// What `../shared/peers` measures with.
const CONFIGURATION: &str = "
listen_addresses = '127.0.0.1'
max_connections = 200
shared_buffers = 512MB
fsync = on
synchronous_commit = on
full_page_writes = on
timezone = 'UTC'
log_timezone = 'UTC'
";

/// A server that ends with this value.
pub struct Server {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl Server {
    pub fn start() -> Result<Self> {
        let binaries = find_binaries()?;
        let folder = tempfile::Builder::new().prefix("punctual-bench.").tempdir()?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
        let data = folder.path().join("data");
        std::fs::create_dir(&data)?;
        if is_root() {
            finish(Command::new("chown").arg("postgres:postgres").arg(&data))?;
        }
        let initdb = binaries.join("initdb");
        let options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"];
        finish(as_postgres(&initdb).arg("-D").arg(&data).args(options))?;
        // Asked for a free port, the kernel does not give the same one to the next who asks.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut text = std::fs::read_to_string(data.join("postgresql.conf"))?;
        text.push_str(CONFIGURATION);
        text.push_str(&format!("port = {port}\nunix_socket_directories = '{}'\n", data.display()));
        std::fs::write(data.join("postgresql.conf"), text)?;
        let log = std::fs::File::create(folder.path().join("log"))?;
        let process = as_postgres(binaries.join("postgres"))
            .arg("-D")
            .arg(&data)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting postgres")?;
        let server = Server { process, port, folder };
        server.wait(&binaries.join("pg_isready"))?;
        Ok(server)
    }

    /// The address of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    fn wait(&self, pg_isready: &Path) -> Result<()> {
        let port = self.port.to_string();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            let mut ask = Command::new(pg_isready);
            if ask.args(["-q", "-h", "127.0.0.1", "-p", &port]).status()?.success() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        bail!("postgres does not answer:\n{log}")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT is a fast shutdown: clients are cut off, data is not.
        let _ = Command::new("kill").args(["-INT", &self.process.id().to_string()]).status();
        let _ = self.process.wait();
    }
}

/// The folder of the server's programs: `PG_BIN`, the search path, Debian's place.
fn find_binaries() -> Result<PathBuf> {
    let named = std::env::var_os("PG_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    debian.sort();
    debian.reverse();
    named
        .into_iter()
        .chain(std::env::split_paths(&path))
        .chain(debian)
        .find(|folder| folder.join("postgres").is_file() && folder.join("initdb").is_file())
        .context("no PostgreSQL server found in PG_BIN, PATH or /usr/lib/postgresql")
}

/// PostgreSQL refuses to run as root.
fn as_postgres(program: impl AsRef<OsStr>) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        // It must not outlive a benchmark that was killed.
        command.args(["--pdeathsig", "INT", "--"]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0)
}

fn finish(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(())
}
