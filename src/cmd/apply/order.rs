//! Jobs after the jobs that they wait for.

use std::collections::HashSet;

use serde_json::Value;

use crate::document::Document;

/// The documents, each behind its upstream jobs and else in the order of the files. Documents
/// that wait for each other stay as they are: the server names the cycle.
pub fn upstream_first(documents: Vec<Document>) -> Vec<Document> {
    let mut waiting = documents;
    let mut ordered = Vec::with_capacity(waiting.len());
    loop {
        let names: HashSet<String> = waiting.iter().map(|job| job.name.clone()).collect();
        let (ready, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|document| {
            upstream(document).all(|job| job == document.name || !names.contains(job))
        });
        let is_stuck = ready.is_empty();
        ordered.extend(ready);
        if is_stuck {
            ordered.extend(rest);
            return ordered;
        }
        waiting = rest;
    }
}

/// The names or ids of the jobs that a document waits for.
pub fn upstream(document: &Document) -> impl Iterator<Item = &str> {
    let items = document.fields.get("depends_on").and_then(Value::as_array);
    items.into_iter().flatten().filter_map(|item| match item {
        Value::String(job) => Some(job.as_str()),
        item => item["job"].as_str(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn upstream_jobs_come_first() {
        let document = |name: &str, upstream: Value| {
            let fields = json!({"name": name, "depends_on": upstream});
            let fields = fields.as_object().cloned().unwrap_or_default();
            Document { name: name.to_owned(), fields, source: String::new() }
        };
        let names = |documents: Vec<Document>| -> Vec<String> {
            upstream_first(documents).into_iter().map(|document| document.name).collect()
        };
        let chain = vec![
            document("c", json!(["b", "elsewhere"])),
            document("b", json!([{"job": "a", "on": "FAILURE"}])),
            document("a", Value::Null),
            document("z", json!([])),
        ];
        assert_eq!(names(chain), ["a", "z", "b", "c"]);
        let cycle = vec![document("x", json!(["y"])), document("y", json!(["x"]))];
        assert_eq!(names(cycle), ["x", "y"]);
    }
}
