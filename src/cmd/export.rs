//! `punctual export`: the documents of the jobs and DAGs that there are.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use super::apply::{OBJECTS, names_of, of_dag};
use super::job::{Filter, find_to_export};
use crate::cli_error::{CliError, visible};
use crate::client::{Client, ServerArgs};
use crate::document::{self, Ordered};
use crate::exit::{Exit, Failure};
use crate::output::{self, text};

/// Which jobs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  punctual export > jobs.yaml
  punctual export --tag reports -o json
  punctual export --context staging | punctual apply -f - --context production --dry-run

One-time jobs whose run has ended are left out: applied elsewhere they would run again.")]
pub struct ExportArgs {
    /// Names of jobs and DAGs [default: all]
    jobs: Vec<String>,

    #[command(flatten)]
    filter: Filter,

    /// Also one-time jobs whose run has ended
    #[arg(long)]
    completed: bool,

    /// Form of the documents
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = DocumentFormat::Yaml)]
    output: DocumentFormat,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum DocumentFormat {
    Yaml,
    Json,
    Ndjson,
}

/// Runs the command.
pub fn run(args: ExportArgs) -> Result<(), Failure> {
    if args.filter.status.as_deref() == Some("deleted") {
        let text = "deleted jobs cannot be exported";
        return Err(CliError::new(text)
            .hint("list them with punctual job list --status deleted")
            .into());
    }
    let client = Client::new(&args.server)?;
    let (mut jobs, _) = find_to_export(&client, &args.filter)?;
    let (mut dags, _) = match args.filter.status {
        // A list of DAGs cannot be narrowed to a state.
        Some(_) => Default::default(),
        None => client.list(&["v1", "dags"], &dag_filters(&args.filter), None)?,
    };
    if !args.jobs.is_empty() {
        dags.retain(|dag| args.jobs.iter().any(|name| dag["name"] == **name));
        jobs.retain(|job| args.jobs.iter().any(|name| job["name"] == **name));
    }
    for name in &args.jobs {
        if !jobs.iter().chain(&dags).any(|job| job["name"] == **name) {
            let error = CliError::new(format!("there is no job or DAG {name}"));
            return Err(Failure::Ended(Exit::NotFound, error));
        }
    }
    let mut names = names(&client, &jobs)?;
    names.extend(names_of(&[], &dags));
    let (done, wanted): (Vec<&Value>, Vec<&Value>) =
        jobs.iter().partition(|job| job["status"] == "COMPLETED" && !args.completed);
    let document = |job: &&Value| document::of_job(job, |id| names.get(id).cloned());
    let calendars = used(&wanted, |job| {
        let uses = job["calendars"].as_array().into_iter().flatten();
        uses.filter_map(|it| it["calendar"].as_str()).collect()
    });
    let pools = used(&wanted, |job| job["pool"]["name"].as_str().into_iter().collect());
    let exported = used(&wanted, |job| job["job_id"].as_str().into_iter().collect());
    let has_name = |it: &Value, names: &BTreeSet<&str>| {
        it["name"].as_str().is_some_and(|name| names.contains(name))
    };
    let mut documents = Vec::new();
    if !calendars.is_empty() {
        documents = objects_of(&client, "calendar", |it| has_name(it, &calendars), &names)?;
    }
    // Blackouts belong to no job.
    if args.jobs.is_empty() && args.filter.is_empty() {
        documents.extend(objects_of(&client, "blackout", |it| it["scope"] == "TENANT", &names)?);
    }
    if !pools.is_empty() {
        documents.extend(objects_of(&client, "pool", |it| has_name(it, &pools), &names)?);
    }
    documents.extend(wanted.iter().map(document));
    let is_of_job = |it: &Value| it["job"].as_str().is_some_and(|job| exported.contains(job));
    let hooks = objects_of(&client, "hook", is_of_job, &names)?;
    for dag in &dags {
        // A list shows no tasks.
        let dag = client.get(&["v1", "dags", &text(dag, "dag_id")])?;
        let mut fields = of_dag(&dag, |id| names.get(id).cloned());
        fields.insert("kind".to_owned(), "dag".into());
        documents.push(fields);
    }
    documents.extend(hooks);
    let mut out = io::stdout().lock();
    match args.output {
        DocumentFormat::Yaml => write!(out, "{}", document::to_yaml(&documents)?)?,
        DocumentFormat::Json => {
            let documents: Vec<_> = documents.iter().map(Ordered).collect();
            writeln!(out, "{}", output::json(&documents, true))?;
        }
        DocumentFormat::Ndjson => {
            for document in &documents {
                writeln!(out, "{}", output::json(&Ordered(document), false))?;
            }
        }
    }
    out.flush()?;
    for job in done {
        let name = visible(&text(job, "name"));
        eprintln!("note: {name} has run and is left out; --completed takes it along");
    }
    Ok(())
}

/// The documents of an object that jobs use, by the names that `used` finds in them. Objects that
/// the user may not see are left out.
fn objects_of(
    client: &Client,
    kind: &str,
    is_wanted: impl Fn(&Value) -> bool,
    names: &HashMap<String, String>,
) -> Result<Vec<Map<String, Value>>, Failure> {
    let Some(object) = OBJECTS.iter().find(|object| object.kind == kind) else {
        return Ok(Vec::new());
    };
    let found = match client.list(&["v1", object.path], &[], None) {
        Ok((found, _)) => found,
        Err(Failure::Ended(Exit::Auth, _)) => {
            eprintln!("note: {} are left out: you may not see them", object.path);
            Vec::new()
        }
        Err(failure) => return Err(failure),
    };
    let document = |it: &Value| {
        let mut fields = object.fields(it, |id| names.get(id).cloned());
        fields.insert("kind".into(), kind.into());
        fields
    };
    Ok(found.iter().filter(|it| is_wanted(it)).map(document).collect())
}

/// The names in a field of jobs.
fn used<'a>(jobs: &[&'a Value], name: impl Fn(&'a Value) -> Vec<&'a str>) -> BTreeSet<&'a str> {
    jobs.iter().flat_map(|job| name(job)).collect()
}

fn dag_filters(filter: &Filter) -> Vec<(&'static str, String)> {
    let named = [("tag", filter.tag.clone()), ("name_prefix", filter.prefix.clone())];
    named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The names of jobs and of the jobs that they wait for, by id.
fn names(client: &Client, jobs: &[Value]) -> Result<HashMap<String, String>, Failure> {
    let mut names: HashMap<String, String> =
        jobs.iter().map(|job| (text(job, "job_id"), text(job, "name"))).collect();
    let upstream = jobs.iter().filter_map(|job| job["depends_on"].as_array()).flatten();
    for id in upstream.filter_map(|item| item["job"].as_str()) {
        if !names.contains_key(id) {
            let job = match client.get(&["v1", "jobs", id]) {
                Err(Failure::Ended(Exit::NotFound, _)) => client.get(&["v1", "dags", id])?,
                job => job?,
            };
            names.insert(id.to_owned(), text(&job, "name"));
        }
    }
    Ok(names)
}
