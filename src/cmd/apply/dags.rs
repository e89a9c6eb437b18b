//! Documents with `kind: dag`, or with `tasks`: the bodies of `POST /v1/dags`.

use std::collections::HashMap;

use domain::id::{JobId, TenantId, UserId};
use domain::job::{Job, JobState};
use domain::job_defaults::JobDefaults;
use serde_json::{Map, Value};
use server::shape::dag::{DagSpec, READ_ONLY};

use super::plan::ApplyStep;
use crate::cli_error::CliError;
use crate::client::Client;
use crate::clock;
use crate::document::{self, Document};
use crate::exit::{Exit, Failure};
use crate::output::text;

/// Separates the documents of DAGs from the others.
pub fn split(documents: Vec<Document>) -> (Vec<Document>, Vec<Document>) {
    let is_dag = |document: &Document| match document.fields.get("kind") {
        Some(Value::String(kind)) => kind.eq_ignore_ascii_case("dag"),
        Some(_) => false,
        None => document.fields.contains_key("tasks"),
    };
    let (mut dags, others): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_dag);
    for document in &mut dags {
        document.fields.remove("kind");
        document.fields.retain(|field, _| !READ_ONLY.contains(&field.as_str()));
    }
    (dags, others)
}

/// Compares documents with the DAGs that there are; DAGs with the tag `prune` and without a
/// document go.
pub fn steps(
    client: &Client,
    documents: Vec<Document>,
    jobs: &[Value],
    prune: Option<&str>,
    defaults: &JobDefaults,
) -> Result<Vec<ApplyStep>, Failure> {
    if documents.is_empty() && prune.is_none() {
        return Ok(Vec::new());
    }
    let (dags, _) = client.list(&["v1", "dags"], &[], None)?;
    let by_id = names_of(jobs, &dags);
    let name_of = |id: &str| by_id.get(id).cloned();
    let names: Vec<String> = documents.iter().map(|document| document.name.clone()).collect();
    let mut steps = Vec::with_capacity(documents.len());
    for document in documents {
        steps.push(match client.get(&["v1", "dags", &document.name]) {
            Ok(dag) => step(document, &dag, defaults, name_of)?,
            Err(Failure::Ended(Exit::NotFound, _)) => {
                shown(&document, defaults, name_of)?;
                ApplyStep::Create { path: "dags", document }
            }
            Err(failure) => return Err(failure),
        });
    }
    let Some(tag) = prune else { return Ok(steps) };
    let has_tag = |dag: &&Value| {
        dag["tags"].as_array().is_some_and(|tags| tags.iter().any(|known| known == tag))
    };
    let described = |dag: &&Value| names.contains(&text(dag, "name"));
    for dag in dags.iter().filter(has_tag).filter(|dag| !described(dag)) {
        steps.push(ApplyStep::Prune {
            path: "dags",
            name: text(dag, "name"),
            id: text(dag, "dag_id"),
            version: dag["version"].as_u64(),
        });
    }
    Ok(steps)
}

/// The names of jobs and DAGs, by id.
pub fn names_of(jobs: &[Value], dags: &[Value]) -> HashMap<String, String> {
    let jobs = jobs.iter().map(|job| (text(job, "job_id"), text(job, "name")));
    let dags = dags.iter().map(|dag| (text(dag, "dag_id"), text(dag, "name")));
    jobs.chain(dags).collect()
}

fn step(
    mut document: Document,
    dag: &Value,
    defaults: &JobDefaults,
    name_of: impl Fn(&str) -> Option<String>,
) -> Result<ApplyStep, Failure> {
    document::complete(&mut document.fields, dag);
    let before = Value::Object(of_dag(dag, &name_of));
    // Fields that the DAG leaves unset stay unset.
    let known = DagSpec::read(before.clone())
        .and_then(|spec| spec.definition(Vec::new(), clock::now(), &clock::zones()));
    let defaults = known.map_or(*defaults, |definition| defaults.for_replaced(&definition));
    let changes = document::diff(&before, &shown(&document, &defaults, name_of)?);
    let written_for = document.fields.get("version").and_then(Value::as_u64);
    Ok(match changes.is_empty() {
        true => ApplyStep::Keep { name: document.name },
        false => ApplyStep::Change {
            path: "dags",
            id: text(dag, "dag_id"),
            version: written_for.or(dag["version"].as_u64()),
            document,
            changes,
        },
    })
}

/// The document of a DAG as the server shows it.
pub fn of_dag(dag: &Value, name_of: impl Fn(&str) -> Option<String>) -> Map<String, Value> {
    let mut fields = document::of_job(dag, name_of);
    fields.retain(|field, _| !READ_ONLY.contains(&field.as_str()));
    fields
}

/// The document of the DAG that a document makes, with every default.
fn shown(
    document: &Document,
    defaults: &JobDefaults,
    name_of: impl Fn(&str) -> Option<String>,
) -> Result<Value, Failure> {
    let refuse = |problem: server::Problem| {
        let field = problem.details.first().map(|it| format!("{}: {}", it.field, it.message));
        let text = field.unwrap_or(problem.message);
        Failure::from(CliError::new(format!("{}: {text}", document.source)))
    };
    let spec = DagSpec::read(Value::Object(document.fields.clone())).map_err(refuse)?;
    let now = clock::now();
    let mut definition = spec.definition(Vec::new(), now, &clock::zones()).map_err(refuse)?;
    defaults.fill(&mut definition, true);
    if let Some(dag) = definition.dag.as_deref()
        && let Err(error) = domain::dag::check(dag)
    {
        return Err(refuse(server::shape::dag::invalid(dag, &error)));
    }
    if definition.when.needs_start() {
        definition.when.start_at(now);
    }
    let job = Job {
        id: JobId(uuid::Uuid::nil()),
        tenant: TenantId(uuid::Uuid::nil()),
        owner: UserId::ADMIN,
        name: spec.job.parts.name.clone(),
        version: 1,
        state: spec.job.parts.state().map_err(refuse)?.unwrap_or(JobState::Enabled),
        definition,
        next_run: None,
        created_at: now,
        updated_at: now,
    };
    let mut shown = of_dag(&Value::Object(DagSpec::of(&job).fields()), |_| None);
    if let Some(upstream) = document.fields.get("depends_on") {
        let upstream = document::shown_upstream(upstream.clone(), name_of);
        shown.extend(upstream.map(|list| ("depends_on".to_owned(), list)));
    }
    Ok(Value::Object(shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(fields: Value) -> Document {
        let fields = fields.as_object().cloned().unwrap_or_default();
        let name = fields["name"].as_str().unwrap_or_default().to_owned();
        Document { name, fields, source: "it".to_owned() }
    }

    #[test]
    fn a_dag_is_changed_or_kept() {
        let tasks = json!([
            {"name": "extract", "payload": {"action": "extract_data"}, "timeout_seconds": 1800},
            {"name": "load", "payload": {"action": "load_data"}, "dependencies": ["extract"]},
        ]);
        let fields =
            |tasks: &Value| json!({"name": "etl", "cron_expression": "0 2 * * *", "tasks": tasks});
        let mut dag = shown(&document(fields(&tasks)), &JobDefaults::default(), |_| None).unwrap();
        dag["dag_id"] = "1".into();
        dag["version"] = 3.into();
        dag["task_count"] = 2.into();
        let told = |tasks: &Value| match step(
            document(fields(tasks)),
            &dag,
            &JobDefaults::default(),
            |_| None,
        ) {
            Ok(step) => step.told()["action"].as_str().unwrap_or_default().to_owned(),
            Err(Failure::Refused(error)) => error.message().to_owned(),
            Err(_) => "failed".to_owned(),
        };
        assert_eq!(told(&tasks), "unchanged");
        let mut other = tasks.clone();
        other[1]["timeout_seconds"] = 3600.into();
        assert_eq!(told(&other), "unchanged", "3600 is the default");
        other[0]["timeout_seconds"] = 60.into();
        assert_eq!(told(&other), "changed");
        other[0]["dependencies"] = json!(["load"]);
        assert!(told(&other).contains("cycle"), "{}", told(&other));
    }

    #[test]
    fn a_document_with_tasks_is_a_dag() {
        let (dags, others) = split(vec![
            document(json!({"name": "a", "tasks": []})),
            document(json!({"name": "b", "kind": "DAG", "tasks": []})),
            document(json!({"name": "c", "payload": {}})),
            document(json!({"name": "d", "kind": "queue"})),
        ]);
        assert_eq!((dags.len(), others.len()), (2, 2));
        assert!(!dags[1].fields.contains_key("kind"));
    }
}
