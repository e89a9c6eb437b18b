//! `punctual import`: jobs of other schedulers.

mod crontab;

use std::fs;
use std::io::{self, Read, Write};

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::apply::{Applying, apply};
use super::job::Asking;
use crate::cli_error::CliError;
use crate::clock;
use crate::document::{self, Document};
use crate::exit::Failure;
use crate::output::text;

use crontab::{CrontabDefaults, CrontabLine, LineMeaning};

/// Source of the imported jobs.
#[derive(Subcommand)]
pub enum ImportCommand {
    /// Convert a crontab into jobs
    Crontab(CrontabArgs),
}

/// Which crontab.
#[derive(Args)]
#[command(after_help = "\
Examples:
  crontab -l | punctual import crontab - > jobs.yaml
  punctual import crontab /etc/crontab --prefix web1- --apply

The report on stderr has the result of each line; the documents are printed on stdout. The exit
code is 1 when a line could not be imported. Files named /etc/crontab or in /etc/cron.d are read
as system crontabs.")]
pub struct CrontabArgs {
    /// File, or - for stdin
    file: String,

    /// The sixth field names a user, as in /etc/crontab
    #[arg(long)]
    system: bool,

    /// Time zone of lines without CRON_TZ [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,

    /// Prefix of each name
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,

    /// Create the jobs, or change those that exist, instead of printing them
    #[arg(long)]
    apply: bool,

    /// With --apply, only print what would change
    #[arg(long, requires = "apply")]
    dry_run: bool,

    #[command(flatten)]
    asking: Asking,
}

/// Runs the command.
pub fn run(command: ImportCommand) -> Result<(), Failure> {
    let ImportCommand::Crontab(args) = command;
    let zones = clock::zones();
    let zone = match &args.tz {
        Some(zone) => zones.find(zone).map_err(CliError::about_zone)?.name().to_owned(),
        None => {
            let zone = clock::zone_name();
            args.asking.output.say(&format!("times without CRON_TZ are read in {zone}; see --tz"));
            zone
        }
    };
    let is_system =
        args.system || args.file == "/etc/crontab" || args.file.starts_with("/etc/cron.d/");
    let reading = CrontabDefaults { system: is_system, zone: &zone, prefix: &args.prefix };
    let lines = crontab::read(&read(&args.file)?, &reading, &zones);
    let refused = report(&args, &lines);
    let jobs: Vec<&Map<String, Value>> = lines
        .iter()
        .filter_map(|line| match &line.verdict {
            LineMeaning::Job(job) => job.as_object(),
            _ => None,
        })
        .collect();
    if args.apply && !jobs.is_empty() {
        let document = |fields: &&Map<String, Value>| Document {
            name: fields.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            fields: (*fields).clone(),
            source: args.file.clone(),
        };
        let applying =
            Applying { dry_run: args.dry_run, prune: None, yes: false, asking: &args.asking };
        apply(jobs.iter().map(document).collect(), &applying)?;
    } else {
        let jobs: Vec<Map<String, Value>> = jobs.into_iter().cloned().collect();
        write!(io::stdout(), "{}", document::to_yaml(&jobs)?)?;
    }
    match refused {
        0 => Ok(()),
        1 => Err(Failure::failed("one line was not imported")),
        n => Err(Failure::failed(format!("{n} lines were not imported"))),
    }
}

/// Says what became of each line, and how many were refused.
fn report(args: &CrontabArgs, lines: &[CrontabLine]) -> usize {
    let mut refused = 0;
    for line in lines {
        let CrontabLine { number, verdict, notes } = line;
        match verdict {
            LineMeaning::Job(job) => args.asking.output.say(&format!(
                "line {number}: job {}: {} {}",
                text(job, "name"),
                text(job, "cron_expression"),
                text(job, "timezone")
            )),
            LineMeaning::Setting(setting) => {
                args.asking.output.say(&format!("line {number}: {setting}"));
            }
            LineMeaning::Refused(why) => {
                refused += 1;
                args.asking.output.say(&format!("line {number}: not imported: {why}"));
            }
        }
        for note in notes {
            args.asking.output.say(&format!("line {number}: note: {note}"));
        }
    }
    refused
}

fn read(file: &str) -> Result<String, Failure> {
    let bytes = if file == "-" {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes)?;
        bytes
    } else {
        fs::read(file).map_err(|error| Failure::failed(format!("cannot read {file}: {error}")))?
    };
    String::from_utf8(bytes).map_err(|_| CliError::new(format!("{file} is not UTF-8 text")).into())
}
