//! Parser tests: examples, errors with their positions, random input, and jobs that are printed and
//! parsed back.

extern crate punctual_sql as sql;

mod dags;
mod docs;
mod examples;
mod identity;
mod injection;
mod mistakes;
mod noise;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use domain::id::JobId;
use domain::job::Definition;
use domain::schedule::{Zone, Zones};
use sql::{Clauses, Context, CreateDag, Defined, Refused};
use uuid::Uuid;

/// The jobs that examples depend on.
const UPSTREAM: [&str; 10] = [
    "extract",
    "Trans form",
    "success",
    "timeout",
    "extract_daily_data",
    "transform_daily_data",
    "etl_extract",
    "etl_transform",
    "0",
    "a \"b\"",
];

fn upstream() -> HashMap<String, JobId> {
    let id = |i: usize| JobId(Uuid::from_u128(100 + i as u128));
    UPSTREAM.iter().enumerate().map(|(i, name)| ((*name).to_owned(), id(i))).collect()
}

fn name_of(id: JobId) -> String {
    UPSTREAM[(id.0.as_u128() - 100) as usize].to_owned()
}

/// The definition of these clauses.
fn define(clauses: &Clauses, base: Option<&Definition>) -> Result<Defined, Refused> {
    let (zones, upstream) = (Zones::bundled(), upstream());
    let context = Context { zones: &zones, zone: &Zone::UTC, upstream: &upstream };
    clauses.define(base, &context)
}

/// The definition of the clauses of a DAG; an error points at its step.
fn define_dag(create: &CreateDag) -> Result<Defined, Refused> {
    let (zones, upstream) = (Zones::bundled(), upstream());
    let context = Context { zones: &zones, zone: &Zone::UTC, upstream: &upstream };
    let defined = create.clauses.define(None, &context)?;
    let dag = defined.definition.dag.clone().unwrap_or_default();
    match domain::dag::check(&dag) {
        Ok(_) => Ok(defined),
        Err(error) => Err(Refused {
            kind: sql::RefusedKind::Value,
            message: error.to_string(),
            at: create.clauses.place_of(&error).unwrap_or(create.name.at),
            hint: None,
        }),
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN=1 writes the file anew")]
fn wants_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// Compares with a file of the repository.
fn golden(name: &str, text: &str) {
    let path = data(name);
    if wants_update() {
        std::fs::write(&path, text).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == text, "run the test with UPDATE_GOLDEN=1 and look at the diff of {path:?}");
}

/// The examples of a file: a line `@ title`, then a text.
fn examples(file: &str) -> Vec<(String, String)> {
    let file = std::fs::read_to_string(data(file)).unwrap();
    let sections = file.split("@ ").skip(1).filter_map(|section| section.split_once('\n'));
    sections.map(|(title, text)| (title.to_owned(), text.trim_end().to_owned())).collect()
}
