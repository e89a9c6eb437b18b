//! Plan of the changes that applying documents makes to the jobs of a server.

use std::collections::{HashMap, HashSet};

use domain::job_defaults::JobDefaults;
use serde_json::{Value, json};

use super::order::upstream;
use crate::document::{self, Change, Document};
use crate::output::text;

/// A change of a job, a queue or a DAG.
pub enum ApplyStep {
    /// It is made.
    Create {
        /// The end of the address of its kind: `jobs`, `queues` or `dags`.
        path: &'static str,
        /// The new definition.
        document: Document,
    },
    /// It becomes something else.
    Change {
        /// The end of the address of its kind.
        path: &'static str,
        /// The new definition, with every field that the server needs.
        document: Document,
        /// Its id.
        id: String,
        /// The version that the comparison saw.
        version: Option<u64>,
        /// The fields that differ.
        changes: Vec<Change>,
    },
    /// It is what its document says.
    Keep {
        /// Its name.
        name: String,
    },
    /// No document describes it.
    Prune {
        /// The end of the address of its kind.
        path: &'static str,
        /// Its name.
        name: String,
        /// Its id.
        id: String,
        /// The version that was seen.
        version: Option<u64>,
    },
}

impl ApplyStep {
    /// The result of the step, as JSON.
    pub fn told(&self) -> Value {
        match self {
            ApplyStep::Create { document, .. } => {
                json!({"name": document.name, "action": "created"})
            }
            ApplyStep::Keep { name } => json!({"name": name, "action": "unchanged"}),
            ApplyStep::Prune { name, .. } => json!({"name": name, "action": "pruned"}),
            ApplyStep::Change { document, changes, .. } => {
                let change = |change: &Change| {
                    json!({
                        "field": change.path, "from": change.from, "to": change.to,
                        "text": change.to_string(),
                    })
                };
                let changes: Vec<Value> = changes.iter().map(change).collect();
                json!({"name": document.name, "action": "changed", "changes": changes})
            }
        }
    }
}

/// Everything that applying documents would do.
pub struct ApplyPlan {
    /// The steps, in the order in which they are carried out.
    pub steps: Vec<ApplyStep>,
    created: HashSet<String>,
}

impl ApplyPlan {
    /// Compares documents with the jobs that there are; jobs with the tag `prune` and without a
    /// document go.
    pub fn new(
        documents: Vec<Document>,
        jobs: &[Value],
        prune: Option<&str>,
        defaults: &JobDefaults,
    ) -> Self {
        let by_name: HashMap<&str, &Value> =
            jobs.iter().filter_map(|job| Some((job["name"].as_str()?, job))).collect();
        let names: HashMap<&str, &str> = jobs
            .iter()
            .filter_map(|job| Some((job["job_id"].as_str()?, job["name"].as_str()?)))
            .collect();
        let name_of = |id: &str| names.get(id).map(|name| (*name).to_owned());
        let described: HashSet<String> = documents.iter().map(|job| job.name.clone()).collect();
        let mut plan = ApplyPlan { steps: Vec::new(), created: HashSet::new() };
        for mut document in documents {
            let Some(job) = by_name.get(document.name.as_str()) else {
                plan.created.insert(document.name.clone());
                plan.steps.push(ApplyStep::Create { path: "jobs", document });
                continue;
            };
            document::complete(&mut document.fields, job);
            let before = Value::Object(document::of_job(job, name_of));
            // Fields that the job leaves unset stay unset.
            let defaults = document::definition(job)
                .map_or(*defaults, |definition| defaults.for_replaced(&definition));
            // An invalid document is sent as it is: the server reports the error.
            let after = document::shown(&document.fields, &defaults, name_of);
            let after = after.unwrap_or_else(|| Value::Object(document.fields.clone()));
            let changes = document::diff(&before, &after);
            // A document that names a version was written for that one.
            let written_for = document.fields.get("version").and_then(Value::as_u64);
            plan.steps.push(match changes.is_empty() {
                true => ApplyStep::Keep { name: document.name },
                false => ApplyStep::Change {
                    path: "jobs",
                    id: text(job, "job_id"),
                    version: written_for.or(job["version"].as_u64()),
                    document,
                    changes,
                },
            });
        }
        let has_tag = |job: &Value, tag: &str| {
            job["tags"].as_array().is_some_and(|tags| tags.iter().any(|known| known == tag))
        };
        for job in jobs {
            let name = text(job, "name");
            if prune.is_some_and(|tag| has_tag(job, tag)) && !described.contains(&name) {
                let (id, version) = (text(job, "job_id"), job["version"].as_u64());
                plan.steps.push(ApplyStep::Prune { path: "jobs", name, id, version });
            }
        }
        plan
    }

    /// Whether a document names an upstream job, a calendar or a pool that does not exist yet.
    pub fn waits_for_new(&self, document: &Document) -> bool {
        let is_new = |name: &str| {
            let new = |step: &ApplyStep| match step {
                ApplyStep::Create { path: "calendars" | "pools", document } => {
                    document.name == name
                }
                _ => false,
            };
            self.steps.iter().any(new)
        };
        let pool = document.fields.get("pool").and_then(|pool| pool["name"].as_str());
        let uses = document.fields.get("calendars").and_then(Value::as_array).into_iter().flatten();
        let mut calendars = uses.filter_map(|it| it["calendar"].as_str());
        upstream(document).any(|job| self.created.contains(job))
            || calendars.any(is_new)
            || pool.is_some_and(is_new)
    }
}
