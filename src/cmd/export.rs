//! `punctual export`: the documents of the jobs and DAGs that there are.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use super::apply::{calendar_fields, names_of, of_dag};
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
    let mut documents = calendars(&client, &wanted)?;
    documents.extend(wanted.iter().map(document));
    for dag in &dags {
        // A list shows no tasks.
        let dag = client.get(&["v1", "dags", &text(dag, "dag_id")])?;
        let mut fields = of_dag(&dag, |id| names.get(id).cloned());
        fields.insert("kind".to_owned(), "dag".into());
        documents.push(fields);
    }
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

/// The documents of the calendars that jobs use: they come before the jobs.
fn calendars(client: &Client, jobs: &[&Value]) -> Result<Vec<Map<String, Value>>, Failure> {
    let uses = jobs.iter().filter_map(|job| job["calendars"].as_array()).flatten();
    let names: BTreeSet<&str> = uses.filter_map(|it| it["calendar"].as_str()).collect();
    let mut documents = Vec::new();
    for name in names {
        let mut fields = calendar_fields(&client.get(&["v1", "calendars", name])?);
        fields.insert("kind".into(), "calendar".into());
        documents.push(fields);
    }
    Ok(documents)
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
