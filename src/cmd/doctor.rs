//! `punctual doctor`: what keeps a server on this machine from working, before and while it runs.

use std::fs;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use clap::Args;
use domain::schedule::Zones;
use reqwest::Method;
use serde_json::{Value, json};

use super::job::Asking;
use crate::cli_error::{CliError, visible};
use crate::client::{Client, data_folder};
use crate::clock;
use crate::exit::{Exit, Failure};
use crate::output::{self, text};

/// The difference between two clocks that leases and schedules bear.
const OFFSET_SECONDS_MAX: i64 = 2;

/// The most jobs whose warnings are shown.
const JOBS_MAX: usize = 500;

/// Where to look.
#[derive(Args)]
#[command(after_help = "\
Checks the time zone of this machine, the sandbox of commands, the data folder and its keys, the
port and the clock; if a server runs, also its store and the warnings of its jobs. The exit code
is 1 when a check fails.")]
pub struct DoctorArgs {
    #[command(flatten)]
    asking: Asking,
}

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckResult {
    Ok,
    Warning,
    Wrong,
}

/// One check and its result.
struct DoctorCheck {
    what: &'static str,
    health: CheckResult,
    found: String,
}

impl DoctorCheck {
    fn new(what: &'static str, health: CheckResult, found: impl Into<String>) -> Self {
        DoctorCheck { what, health, found: found.into() }
    }

    fn word(&self) -> &'static str {
        match self.health {
            CheckResult::Ok => "ok",
            CheckResult::Warning => "warning",
            CheckResult::Wrong => "wrong",
        }
    }
}

/// Runs the command.
pub fn run(args: DoctorArgs) -> Result<(), Failure> {
    let mut checks = vec![check_zones()];
    checks.push(check_sandbox()?);
    let folder = data_folder(&args.asking.server);
    checks.extend(check_folder(&folder));
    match args.asking.client() {
        Ok(client) => checks.extend(check_server(&client)),
        Err(Failure::Refused(error) | Failure::Ended(_, error)) => {
            checks.push(DoctorCheck::new("server", CheckResult::Wrong, error.message()));
        }
        Err(failure) => return Err(failure),
    }
    print(&args, &checks)?;
    let wrong = checks.iter().filter(|check| check.health == CheckResult::Wrong).count();
    match wrong {
        0 => Ok(()),
        1 => Err(Failure::Ended(Exit::Failed, CliError::new("one check failed"))),
        n => Err(Failure::Ended(Exit::Failed, CliError::new(format!("{n} checks failed")))),
    }
}

fn print(args: &DoctorArgs, checks: &[DoctorCheck]) -> Result<(), Failure> {
    if args.asking.output.is_table() {
        let mut out = io::stdout().lock();
        for check in checks {
            let found = visible(&check.found);
            writeln!(out, "{:8} {:12} {found}", check.word(), check.what)?;
        }
        return Ok(());
    }
    let told = |check: &DoctorCheck| json!({"check": check.what, "health": check.word(), "found": check.found});
    let told: Vec<Value> = checks.iter().map(told).collect();
    output::print_list(
        &args.asking.output,
        &told,
        &output::Shape { columns: &[], wide: &[], name: "check" },
    )
}

/// The time zones of this machine, compared with the compiled-in ones.
fn check_zones() -> DoctorCheck {
    let zone = clock::zone_name();
    match Zones::bundled().find(&zone) {
        Ok(_) => DoctorCheck::new(
            "time zones",
            CheckResult::Ok,
            format!("this machine's zone is {zone}"),
        ),
        Err(error) => DoctorCheck::new("time zones", CheckResult::Warning, error.to_string()),
    }
}

/// Reports which parts of the sandbox this machine supports.
fn check_sandbox() -> Result<DoctorCheck, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = match runtime.block_on(agent::sandbox::probe()) {
        Ok(report) => report,
        Err(why) => return Ok(DoctorCheck::new("sandbox", CheckResult::Warning, why)),
    };
    let names: Vec<&str> = report.in_force.keys().map(|feature| feature.name()).collect();
    let mut found = format!("for commands: {}", names.join(", "));
    let missing =
        |(feature, why): (&agent::sandbox::Feature, &String)| format!("{} ({why})", feature.name());
    let missing: Vec<String> = report.missing.iter().map(missing).collect();
    if !missing.is_empty() {
        found.push_str(&format!("; not available: {}", missing.join(", ")));
    }
    let health = if report.lacks().is_some() { CheckResult::Warning } else { CheckResult::Ok };
    Ok(DoctorCheck::new("sandbox", health, found))
}

/// Checks that the data folder and its keys exist and that no other user can read them.
fn check_folder(folder: &Path) -> Vec<DoctorCheck> {
    let shown = folder.display();
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let found = format!("{shown} is not there; `punctual serve` makes it");
            return vec![DoctorCheck::new("data folder", CheckResult::Warning, found)];
        }
        Err(error) => {
            return vec![DoctorCheck::new(
                "data folder",
                CheckResult::Wrong,
                format!("{shown}: {error}"),
            )];
        }
    };
    let mode = metadata.permissions().mode() & 0o777;
    let mut checks = vec![match mode & 0o077 {
        0 => DoctorCheck::new("data folder", CheckResult::Ok, format!("{shown}, mode {mode:o}")),
        _ => {
            let found = format!("{shown} is open to others (mode {mode:o}): chmod 700 {shown}");
            DoctorCheck::new("data folder", CheckResult::Warning, found)
        }
    }];
    for name in ["admin.key", "master.key"] {
        let file = folder.join(name);
        let shown = file.display();
        let check = match fs::metadata(&file) {
            Err(_) => {
                DoctorCheck::new("key", CheckResult::Warning, format!("{shown} is not there"))
            }
            Ok(key) if key.permissions().mode() & 0o077 != 0 => {
                let found = format!("{shown} can be read by others: chmod 600 {shown}");
                DoctorCheck::new("key", CheckResult::Wrong, found)
            }
            Ok(key) if key.uid() != metadata.uid() => DoctorCheck::new(
                "key",
                CheckResult::Wrong,
                format!("{shown} belongs to another user"),
            ),
            Ok(_) => match fs::read(&file) {
                Ok(_) => DoctorCheck::new("key", CheckResult::Ok, format!("{shown}")),
                Err(error) => {
                    DoctorCheck::new("key", CheckResult::Wrong, format!("{shown}: {error}"))
                }
            },
        };
        checks.push(check);
    }
    checks
}

/// Checks the server, or whether one could listen.
fn check_server(client: &Client) -> Vec<DoctorCheck> {
    let url = client.place().url().clone();
    let answer = client.call(Method::GET, &["readyz"]).query("verbose", "true").send_any();
    let (_, ready) = match answer {
        Ok(answer) => answer,
        Err(Failure::Ended(Exit::Failed, _)) => {
            let found = format!("something answers at {url}, but it is not Punctual");
            return vec![DoctorCheck::new("server", CheckResult::Wrong, found)];
        }
        Err(_) => return vec![check_port(client)],
    };
    let about = client.get(&["version"]).unwrap_or_default();
    let (version, zones) = (text(&about, "version"), text(&about, "tzdb_version"));
    let found = format!("{url} answers, version {version}, time zones {zones}");
    let mut checks = vec![DoctorCheck::new("server", CheckResult::Ok, found)];
    for what in ["store", "scheduling"] {
        let health = if ready[what]["ok"] == true { CheckResult::Ok } else { CheckResult::Wrong };
        checks.push(DoctorCheck::new(what, health, text(&ready[what], "detail")));
    }
    checks.push(match client.call(Method::GET, &["v1", "jobs"]).query("limit", "1").send_any() {
        Ok((200, _)) => DoctorCheck::new("key", CheckResult::Ok, "the server takes it"),
        Ok((401, _)) => DoctorCheck::new("key", CheckResult::Wrong, client.place().about_key()),
        Ok((status, _)) => DoctorCheck::new(
            "key",
            CheckResult::Warning,
            format!("a list of jobs gave status {status}"),
        ),
        Err(_) if client.place().token().is_none() => {
            DoctorCheck::new("key", CheckResult::Wrong, client.place().about_key())
        }
        Err(_) => DoctorCheck::new("key", CheckResult::Warning, "the server stopped answering"),
    });
    checks.extend(check_jobs(client));
    if let Ok(Some(theirs)) = client.call(Method::GET, &["healthz"]).server_time() {
        let offset = theirs.duration_since(clock::now()).as_secs();
        let health =
            if offset.abs() <= OFFSET_SECONDS_MAX { CheckResult::Ok } else { CheckResult::Warning };
        let found = format!("the server's differs from this machine's by {} s", offset.abs());
        checks.push(DoctorCheck::new("clock", health, found));
    }
    checks
}

/// Checks jobs: reports the warnings that the server gives when they are created.
fn check_jobs(client: &Client) -> Vec<DoctorCheck> {
    let filters = [("include", "warnings".to_owned()), ("status", "ACTIVE".to_owned())];
    // Another check says why a server does not list jobs.
    let Ok((jobs, _)) = client.list(&["v1", "jobs"], &filters, Some(JOBS_MAX)) else {
        return Vec::new();
    };
    let mut checks = Vec::new();
    for job in &jobs {
        for warning in job["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let found = format!("{}: {warning}", text(job, "name"));
            checks.push(DoctorCheck::new("job", CheckResult::Warning, found));
        }
    }
    if checks.is_empty() {
        let found = format!("{} active, none lacks anything that this server knows of", jobs.len());
        checks.push(DoctorCheck::new("jobs", CheckResult::Ok, found));
    }
    checks
}

/// Checks whether a server could listen on the address, as none answers there.
fn check_port(client: &Client) -> DoctorCheck {
    let url = client.place().url();
    let address = url.socket_addrs(|| None).ok().and_then(|all| all.first().copied());
    match address.filter(|_| client.place().is_loopback()) {
        None => {
            DoctorCheck::new("server", CheckResult::Wrong, format!("no server answers at {url}"))
        }
        Some(address) => match TcpListener::bind(address) {
            Ok(_) => {
                let found = format!("none runs; {address} is free for `punctual serve`");
                DoctorCheck::new("server", CheckResult::Warning, found)
            }
            Err(error) => DoctorCheck::new("server", CheckResult::Wrong, taken(address, &error)),
        },
    }
}

fn taken(address: SocketAddr, error: &io::Error) -> String {
    format!("no server answers at {address}, and the address cannot be used: {error}")
}
