//! `punctual apply`: jobs, queues and DAGs become what files say that they are.
//!
//! Everything is checked before the first job changes. A job that already is what its document
//! says is not touched, so that applying twice is the same as applying once.

mod dags;
mod objects;
mod order;
mod plan;
mod queues;

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use clap::Args;
use domain::job_defaults::JobDefaults;
use reqwest::Method;
use serde_json::{Value, json};
use server::shape::job_defaults::JobDefaultsSpec;

use super::job::Asking;
use crate::cli_error::{CliError, visible};
use crate::client::Client;
use crate::document::{self, Document};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format, OutputArgs, confirm};
use crate::progress::ProgressLine;

use plan::{ApplyPlan, ApplyStep};

pub use dags::{names_of, of_dag};
pub use objects::OBJECTS;

/// Which files, and how far to go.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual apply -f jobs/ --dry-run
  punctual apply -f jobs/ --prune --owner team-data
  punctual export | punctual apply -f -

A document is the body of POST /v1/jobs as YAML or JSON; a file may hold several, with --- between
them. A field that a document leaves out has its default, except status: a job that is paused stays
paused. A document with `kind: queue` is the body of POST /v1/queues, and so are those with `kind:
calendar`, `blackout`, `pool` and `hook`; one with `kind: dag` or with `tasks` is that of POST
/v1/dags. The secret of a hook that is created is printed once.

--owner LABEL marks each job with the tag owner:LABEL. --prune deletes the jobs with that tag that
no document describes.")]
pub struct ApplyArgs {
    /// File, folder or - for stdin; may be given several times
    #[arg(short, long = "file", value_name = "PATH", required_unless_present = "paths")]
    files: Vec<String>,

    /// The same as --file
    #[arg(value_name = "PATH", conflicts_with = "files")]
    paths: Vec<String>,

    /// Only print what would change
    #[arg(long)]
    dry_run: bool,

    /// Delete jobs of --owner that no document describes
    #[arg(long, requires = "owner")]
    prune: bool,

    /// Owner of these jobs
    #[arg(long, value_name = "LABEL")]
    owner: Option<String>,

    /// Do not ask before jobs are deleted
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    asking: Asking,
}

/// How documents are applied.
pub struct Applying<'a> {
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// The tag of the jobs that no document describes and that go.
    pub prune: Option<String>,
    /// Whether jobs are deleted without a question.
    pub yes: bool,
    /// Server and output.
    pub asking: &'a Asking,
}

/// Runs the command.
pub fn run(args: ApplyArgs) -> Result<(), Failure> {
    let mut documents = Vec::new();
    for file in args.files.iter().chain(&args.paths) {
        documents.extend(document::read(file)?);
    }
    document::check_names(&documents)?;
    let tag = args.owner.as_ref().map(|owner| format!("owner:{owner}"));
    if let Some(tag) = &tag {
        documents.iter_mut().try_for_each(|document| mark(document, tag))?;
    }
    let prune = tag.filter(|_| args.prune);
    let applying = Applying { dry_run: args.dry_run, prune, yes: args.yes, asking: &args.asking };
    apply(documents, &applying)
}

/// Which files are compared.
#[derive(Args)]
pub struct DiffArgs {
    /// File, folder or - for stdin; may be given several times
    #[arg(short, long = "file", value_name = "PATH", required_unless_present = "paths")]
    files: Vec<String>,

    /// The same as --file
    #[arg(value_name = "PATH", conflicts_with = "files")]
    paths: Vec<String>,

    #[command(flatten)]
    asking: Asking,
}

/// Prints what applying files would change, and changes nothing.
pub fn diff(args: DiffArgs) -> Result<(), Failure> {
    let mut documents = Vec::new();
    for file in args.files.iter().chain(&args.paths) {
        documents.extend(document::read(file)?);
    }
    document::check_names(&documents)?;
    let asking = &args.asking;
    apply(documents, &Applying { dry_run: true, prune: None, yes: true, asking })
}

/// Gives a document a tag, unless it is of a kind without tags.
fn mark(document: &mut Document, tag: &str) -> Result<(), Failure> {
    let kind = document.fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    if OBJECTS.iter().any(|object| kind.eq_ignore_ascii_case(object.kind)) {
        return Ok(());
    }
    let tags = document.fields.entry("tags").or_insert_with(|| json!([]));
    match tags {
        Value::Array(tags) if tags.iter().any(|known| known == tag) => {}
        Value::Array(tags) => tags.push(tag.into()),
        _ => {
            let Document { source, .. } = document;
            return Err(CliError::new(format!("{source}: tags: must be a list of texts")).into());
        }
    }
    Ok(())
}

/// Makes jobs, queues and DAGs what documents say, and prints what was done to each.
pub fn apply(documents: Vec<Document>, applying: &Applying<'_>) -> Result<(), Failure> {
    let client = applying.asking.client()?;
    let (jobs, _) = client.list(&["v1", "jobs"], &[], None)?;
    let (dags, documents) = dags::split(documents);
    let queues::Kinds { objects, queues, jobs: documents } = queues::split(documents)?;
    let defaults = defaults(&client)?;
    let prune = applying.prune.as_deref();
    let mut plan = ApplyPlan::new(order::upstream_first(documents), &jobs, prune, &defaults);
    // Jobs can feed queues, use calendars and take places in pools of the same files.
    plan.steps.splice(0..0, queues::steps(&client, queues)?);
    // Steps of DAGs can call jobs of the same files.
    plan.steps.extend(dags::steps(&client, dags, &jobs, prune, &defaults)?);
    let names = names_of(&jobs, &[]);
    for (object, documents) in OBJECTS.iter().zip(objects) {
        let steps = object.steps(&client, documents, |id| names.get(id).cloned())?;
        let place = if object.is_after_jobs { plan.steps.len() } else { 0 };
        plan.steps.splice(place..place, steps);
    }
    check(&client, &plan, &applying.asking.output)?;
    let pruned = plan.steps.iter().filter(|step| matches!(step, ApplyStep::Prune { .. })).count();
    if !applying.dry_run && pruned > 0 {
        confirm(applying.yes, &format!("Delete {pruned} jobs that no document describes?"))?;
    }
    let mut done = Vec::with_capacity(plan.steps.len());
    let progress = ProgressLine::of(&applying.asking.output, "applying", plan.steps.len());
    for step in &plan.steps {
        let mut told = step.told();
        if !applying.dry_run {
            // The secret of a new hook is shown once.
            let answer = carry_out(&client, step)?;
            for field in ["path", "secret"] {
                if let Some(value) = answer.get(field).filter(|_| answer["secret"].is_string()) {
                    told[field] = value.clone();
                }
            }
        }
        done.push(told);
        if applying.asking.output.is_table() {
            progress.aside(|| print_step(&done[done.len() - 1]))?;
        }
        progress.step();
    }
    drop(progress);
    match applying.asking.output.format() {
        Format::Table | Format::Wide => {}
        _ => output::print_list(
            &applying.asking.output,
            &done,
            &output::Shape { columns: &[], wide: &[], name: "name" },
        )?,
    }
    applying.asking.output.say(&summary(&done, applying.dry_run));
    Ok(())
}

/// Defaults of the server for fields that the document of a job leaves out.
fn defaults(client: &Client) -> Result<JobDefaults, Failure> {
    let mut answer = client.get(&["v1", "whoami"])?;
    let spec: Option<JobDefaultsSpec> =
        serde_json::from_value(answer["job_defaults"].take()).unwrap_or_default();
    let defaults = spec.and_then(|spec| spec.defaults().ok());
    Ok(defaults.unwrap_or_default())
}

/// Lets the server validate every document that would be written, before anything is written.
fn check(client: &Client, plan: &ApplyPlan, output: &OutputArgs) -> Result<(), Failure> {
    let progress = ProgressLine::of(output, "checking", plan.steps.len());
    for step in &plan.steps {
        progress.step();
        let (path, document, exists) = match step {
            ApplyStep::Create { path, document } => (*path, document, false),
            ApplyStep::Change { path, document, .. } => (*path, document, true),
            ApplyStep::Keep { .. } | ApplyStep::Prune { .. } => continue,
        };
        let address: &[&str] = match path {
            "jobs" => &["v1", "jobs:validate"],
            "dags" => &["v1", "dags", "validate"],
            _ => continue,
        };
        // An upstream job or a calendar of the same files does not exist before they are applied.
        if plan.waits_for_new(document) {
            continue;
        }
        let body = Value::Object(document.fields.clone());
        match client.post(address).json(&body).send() {
            Ok(_) => {}
            // The name is taken by the very job that changes.
            Err(Failure::Ended(Exit::Conflict, _)) if exists => {}
            Err(failure) => return Err(failure.about(&document.source)),
        }
    }
    Ok(())
}

/// Carries out a step; answers the response of the server.
fn carry_out(client: &Client, step: &ApplyStep) -> Result<Value, Failure> {
    match step {
        ApplyStep::Create { path, document } => {
            let body = Value::Object(document.fields.clone());
            let made = client.post(&["v1", path]).json(&body).send();
            made.map_err(|failure| failure.about(&document.source))
        }
        ApplyStep::Change { path, document, id, version, .. } => {
            let body = Value::Object(document.fields.clone());
            let is_patched = OBJECTS.iter().any(|it| it.path == *path && it.is_patched);
            let method = if is_patched { Method::PATCH } else { Method::PUT };
            let call = client.call(method, &["v1", path, id]).if_version(*version);
            call.json(&body).send().map_err(|failure| failure.about(&document.source))
        }
        ApplyStep::Prune { path, id, version, .. } => {
            let call = client.call(Method::DELETE, &["v1", path, id]).if_version(*version);
            call.send()
        }
        ApplyStep::Keep { .. } => Ok(Value::Null),
    }
}

fn print_step(told: &Value) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    let word = output::text(told, "action");
    writeln!(out, "{word:9}  {}", visible(&output::text(told, "name")))?;
    for field in ["path", "secret"] {
        if let Some(value) = told[field].as_str() {
            writeln!(out, "  {field}: {}", visible(value))?;
        }
    }
    for change in told["changes"].as_array().into_iter().flatten() {
        writeln!(out, "  {}", visible(&output::text(change, "text")))?;
    }
    Ok(out.flush()?)
}

fn summary(done: &[Value], dry_run: bool) -> String {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for step in done {
        *counts.entry(step["action"].as_str().unwrap_or("")).or_default() += 1;
    }
    let count = |word| counts.get(word).copied().unwrap_or(0);
    let text = format!(
        "{} created, {} changed, {} unchanged, {} pruned",
        count("created"),
        count("changed"),
        count("unchanged"),
        count("pruned")
    );
    if dry_run { format!("{text}: a dry run, nothing was written") } else { text }
}
