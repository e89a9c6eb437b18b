//! Documents with `kind: queue`: the bodies of `POST /v1/queues`.

use serde_json::{Map, Value};
use server::shape::queue::{QueueSpec, READ_ONLY};

use super::objects::{OBJECTS, ObjectDocument};
use super::plan::ApplyStep;
use crate::cli_error::CliError;
use crate::client::Client;
use crate::document::{self, Document};
use crate::exit::Failure;
use crate::output::text;

/// The documents of files by their kind.
#[derive(Default)]
pub struct Kinds {
    /// The documents of each of [`OBJECTS`], in their order.
    pub objects: [Vec<Document>; OBJECTS.len()],
    /// `kind: queue`.
    pub queues: Vec<Document>,
    /// `kind: job`, or none.
    pub jobs: Vec<Document>,
}

/// Separates the documents by their kind.
pub fn split(documents: Vec<Document>) -> Result<Kinds, Failure> {
    let Kinds { mut objects, mut queues, mut jobs } = Kinds::default();
    for mut document in documents {
        match document.fields.remove("kind") {
            None => jobs.push(document),
            Some(Value::String(kind)) if kind.eq_ignore_ascii_case("job") => jobs.push(document),
            Some(Value::String(kind)) if kind.eq_ignore_ascii_case("queue") => {
                document.fields.retain(|field, _| !READ_ONLY.contains(&field.as_str()));
                queues.push(document);
            }
            Some(kind) => {
                let is = |object: &ObjectDocument| {
                    kind.as_str().is_some_and(|kind| kind.eq_ignore_ascii_case(object.kind))
                };
                let Some(n) = OBJECTS.iter().position(is) else {
                    let known = OBJECTS.map(|object| object.kind).join(", ");
                    let text =
                        format!("{}: kind: must be job, queue, dag, {known}", document.source);
                    return Err(CliError::new(text).into());
                };
                objects[n].push(document);
            }
        }
    }
    Ok(Kinds { objects, queues, jobs })
}

/// Compares documents with the queues that there are.
pub fn steps(client: &Client, documents: Vec<Document>) -> Result<Vec<ApplyStep>, Failure> {
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let (queues, _) = client.list(&["v1", "queues"], &[], None)?;
    documents.into_iter().map(|document| step(document, &queues)).collect()
}

fn step(document: Document, queues: &[Value]) -> Result<ApplyStep, Failure> {
    let after = shown(&document)?;
    let Some(queue) = queues.iter().find(|queue| queue["name"] == *document.name) else {
        return Ok(ApplyStep::Create { path: "queues", document });
    };
    let changes = document::diff(&Value::Object(settings(queue)), &after);
    let written_for = document.fields.get("version").and_then(Value::as_u64);
    Ok(match changes.is_empty() {
        true => ApplyStep::Keep { name: document.name },
        false => ApplyStep::Change {
            path: "queues",
            id: text(queue, "queue_id"),
            version: written_for.or(queue["version"].as_u64()),
            document,
            changes,
        },
    })
}

/// The settings of a queue as the server shows it.
fn settings(queue: &Value) -> Map<String, Value> {
    let mut fields = queue.as_object().cloned().unwrap_or_default();
    fields.retain(|field, _| field != "version" && !READ_ONLY.contains(&field.as_str()));
    fields
}

/// The settings of the queue that a document makes, with every default.
fn shown(document: &Document) -> Result<Value, Failure> {
    let refuse = |problem: String| CliError::new(format!("{}: {problem}", document.source));
    let spec: QueueSpec = serde_json::from_value(Value::Object(document.fields.clone()))
        .map_err(|error| refuse(error.to_string()))?;
    let definition = spec.definition().map_err(|problem| {
        let field = problem.details.first().map(|it| format!("{}: {}", it.field, it.message));
        refuse(field.unwrap_or(problem.message))
    })?;
    let complete = QueueSpec::from_definition(&spec.name, &definition);
    serde_json::to_value(complete).map_err(|error| refuse(error.to_string()).into())
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

    fn told(fields: Value, queues: &[Value]) -> String {
        match step(document(fields), queues) {
            Ok(step) => step.told()["action"].as_str().unwrap_or_default().to_owned(),
            Err(Failure::Refused(error)) => error.message().to_owned(),
            Err(_) => "failed".to_owned(),
        }
    }

    #[test]
    fn a_queue_is_created_changed_or_kept() {
        let spec = document(json!({"name": "mail", "lease_seconds": 10}));
        let mut queue = shown(&spec).unwrap();
        queue["queue_id"] = "1".into();
        queue["ready"] = 7.into();
        queue["version"] = 3.into();
        for (fields, expected) in [
            (json!({"name": "mail", "lease_seconds": 10}), "unchanged"),
            (json!({"name": "mail", "lease_seconds": "10s"}), "unchanged"),
            (json!({"name": "mail"}), "changed"),
            (json!({"name": "mail", "lease_seconds": 10, "concurrency": 2}), "changed"),
            (json!({"name": "other"}), "created"),
            (
                json!({"name": "mail", "lease_seconds": 0}),
                "it: lease_seconds: must be between 1 and 43200",
            ),
        ] {
            assert_eq!(told(fields.clone(), std::slice::from_ref(&queue)), expected, "{fields}");
        }
        assert!(told(json!({"name": "mail", "leese": 1}), &[]).contains("leese"));
    }

    #[test]
    fn the_kind_of_a_document_is_named() {
        let documents = |kind: Value| vec![document(json!({"name": "a", "kind": kind}))];
        let count = |kind| {
            let found = split(documents(kind));
            found.map(|it| (it.objects.map(|it| it.len()), it.queues.len(), it.jobs.len()))
        };
        assert_eq!(count(json!("calendar")).ok(), Some(([1, 0, 0, 0], 0, 0)));
        assert_eq!(count(json!("Pool")).ok(), Some(([0, 0, 1, 0], 0, 0)));
        assert_eq!(count(json!("queue")).ok(), Some(([0; 4], 1, 0)));
        assert_eq!(count(json!("Job")).ok(), Some(([0; 4], 0, 1)));
        assert!(count(json!("table")).is_err());
    }
}
