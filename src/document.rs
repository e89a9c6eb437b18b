//! Job documents: the bodies of `POST /v1/jobs` in files, as YAML or JSON, several to a file.

mod shown;

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};
pub use server::shape::diff::{Change, diff};
use server::shape::job::READ_ONLY;

use crate::cli_error::CliError;
use crate::exit::Failure;
use crate::output;

pub use shown::{complete, definition, shown, shown_upstream};

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The deepest folder that is looked into.
const FOLDER_DEPTH_MAX: usize = 16;

/// The order in which people read a document. Fields that are not named come behind, by name.
const ORDER: [&str; 18] = [
    "kind",
    "name",
    "description",
    "status",
    "job_type",
    "cron_expression",
    "timezone",
    "dst",
    "run_at",
    "interval_seconds",
    "starts_at",
    "ends_at",
    "depends_on",
    "payload",
    "tasks",
    "timeout_seconds",
    "retry_config",
    "tags",
];

/// A job as a file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The job's name.
    pub name: String,
    /// The definition.
    pub fields: Map<String, Value>,
    /// Where it was read, for people.
    pub source: String,
}

/// Reads the documents of a file, of every YAML and JSON file in a folder, or of stdin (`-`).
pub fn read(path: &str) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    if path == "-" {
        let text = read_whole(std::io::stdin(), "stdin")?;
        parse(&text, "stdin", &mut documents)?;
    } else {
        let file = Path::new(path);
        let about = fs::metadata(file).map_err(|error| cannot_read(file, &error))?;
        if about.is_dir() {
            read_folder(file, FOLDER_DEPTH_MAX, &mut documents)?;
        } else {
            read_file(file, &mut documents)?;
        }
    }
    if documents.is_empty() {
        return Err(CliError::new(format!("{path} contains no job"))
            .hint("a job is a YAML or JSON object with at least name and payload")
            .into());
    }
    check_names(&documents)?;
    Ok(documents)
}

/// Refuses documents that describe the same job.
pub fn check_names(documents: &[Document]) -> Result<(), Failure> {
    let mut by_name = std::collections::HashMap::new();
    for document in documents {
        let kind = document.fields.get("kind").and_then(Value::as_str).unwrap_or("job");
        // Jobs, queues and DAGs share their names; a calendar or a pool may have that of a job.
        let kind = kind.to_ascii_lowercase();
        let kind = if matches!(kind.as_str(), "queue" | "dag") { "job".to_owned() } else { kind };
        let same = by_name.insert((kind.clone(), &document.name), &document.source);
        if let Some(first) = same {
            let Document { name, source, .. } = document;
            let text = format!("the {kind} {name} is described twice: {first} and {source}");
            return Err(CliError::new(text).into());
        }
    }
    Ok(())
}

/// The whole of an input. Part of it would describe fewer jobs than there are.
fn read_whole(input: impl Read, source: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let cannot = |error| Failure::failed(format!("cannot read {source}: {error}"));
    input.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(CliError::new(format!("{source} is larger than {FILE_BYTES_MAX} bytes"))
            .hint("split it into several files in a folder")
            .into());
    }
    Ok(text)
}

fn cannot_read(file: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot read {}: {error}", file.display()))
}

fn read_folder(folder: &Path, depth: usize, into: &mut Vec<Document>) -> Result<(), Failure> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut paths: Vec<_> = entries
        .map_err(|error| cannot_read(folder, &error))?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or("");
        if hidden {
            continue;
        }
        if path.is_dir() && depth == 0 {
            let text = format!("{} is deeper than {FOLDER_DEPTH_MAX} folders", path.display());
            return Err(CliError::new(text)
                .hint("does a link lead back to a folder above?")
                .into());
        } else if path.is_dir() {
            read_folder(&path, depth - 1, into)?;
        } else if path.is_file() && matches!(kind, "yaml" | "yml" | "json") {
            read_file(&path, into)?;
        }
    }
    Ok(())
}

fn read_file(file: &Path, into: &mut Vec<Document>) -> Result<(), Failure> {
    let open = fs::File::open(file).map_err(|error| cannot_read(file, &error))?;
    let source = file.display().to_string();
    parse(&read_whole(open, &source)?, &source, into)
}

/// Reads every document of a text. JSON is recognised by its first character.
fn parse(text: &str, source: &str, into: &mut Vec<Document>) -> Result<(), Failure> {
    let refuse = |problem: String| CliError::new(format!("{source}: {problem}"));
    let values: Vec<Value> = if text.trim_start().starts_with(['{', '[']) {
        serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(|error| refuse(error.to_string()))?
    } else {
        serde_saphyr::from_multiple(text).map_err(|error| {
            let text = error.to_string();
            refuse(text.lines().next().unwrap_or("it is not YAML").to_owned())
        })?
    };
    let several = values.len() > 1;
    for (index, value) in values.into_iter().enumerate() {
        let source = match several {
            true => format!("{source}, document {}", index + 1),
            false => source.to_owned(),
        };
        match value {
            Value::Array(items) => {
                for (index, item) in items.into_iter().enumerate() {
                    into.push(document(item, format!("{source}, item {}", index + 1))?);
                }
            }
            value => into.push(document(value, source)?),
        }
    }
    Ok(())
}

fn document(value: Value, source: String) -> Result<Document, Failure> {
    let Value::Object(mut fields) = value else {
        let error = CliError::new(format!("{source}: a job is an object with named fields"));
        return Err(error.hint("it begins with a line such as `name: nightly-backup`").into());
    };
    // The output of `job show` is a document, too: drop the fields that only responses have.
    fields.retain(|field, _| !READ_ONLY.contains(&field.as_str()));
    match fields.get("name").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => Ok(Document { name: name.to_owned(), fields, source }),
        _ => Err(CliError::new(format!("{source}: name: missing, or not a string")).into()),
    }
}

/// The document that describes a job of a server. `name_of` finds the names of its upstream jobs.
pub fn of_job(job: &Value, name_of: impl Fn(&str) -> Option<String>) -> Map<String, Value> {
    let mut fields = job.as_object().cloned().unwrap_or_default();
    fields.retain(|field, _| field != "version" && !READ_ONLY.contains(&field.as_str()));
    // A document without a status means an active job.
    if matches!(fields.get("status").and_then(Value::as_str), Some("ACTIVE" | "COMPLETED")) {
        fields.remove("status");
    }
    if let Some(Value::Object(retry)) = fields.get_mut("retry_config") {
        // It follows from max_attempts.
        retry.remove("max_retries");
    }
    if let Some(Value::Array(upstream)) = fields.get_mut("depends_on") {
        for item in upstream {
            if let Some(name) = item["job"].as_str().and_then(&name_of) {
                item["job"] = name.into();
            }
        }
    }
    fields
}

/// The documents as one YAML text.
pub fn to_yaml(documents: &[Map<String, Value>]) -> Result<String, Failure> {
    let mut text = String::new();
    for (index, fields) in documents.iter().enumerate() {
        if index > 0 {
            text.push_str("---\n");
        }
        text.push_str(&output::yaml(&Ordered(fields))?);
    }
    Ok(text)
}

/// The fields in the order in which people read them.
pub struct Ordered<'a>(pub &'a Map<String, Value>);

impl serde::Serialize for Ordered<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let first = ORDER.iter().filter_map(|field| self.0.get_key_value(*field));
        let mut rest: Vec<_> =
            self.0.iter().filter(|(field, _)| !ORDER.contains(&field.as_str())).collect();
        rest.sort_by_key(|(field, _)| field.as_str());
        serializer.collect_map(first.chain(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(text: &str) -> String {
        let mut documents = Vec::new();
        match parse(text, "it", &mut documents) {
            Ok(()) => {
                let shown = |d: &Document| format!("{} ({})", d.name, d.source);
                documents.iter().map(shown).collect::<Vec<_>>().join(", ")
            }
            Err(Failure::Refused(error)) => format!("{error:?}"),
            Err(_) => "failed".to_owned(),
        }
    }

    #[test]
    fn documents_are_yaml_or_json_one_or_several() {
        for (text, found) in [
            ("name: a\n", "a (it)"),
            ("---\nname: a\n---\nname: b\n", "a (it, document 1), b (it, document 2)"),
            ("- name: a\n- name: b\n", "a (it, item 1), b (it, item 2)"),
            ("{\"name\": \"a\"}", "a (it)"),
            ("{\"name\": \"a\"}\n{\"name\": \"b\"}", "a (it, document 1), b (it, document 2)"),
            ("[{\"name\": \"a\"}]", "a (it, item 1)"),
            ("# nothing\n", ""),
            ("", ""),
        ] {
            assert_eq!(names(text), found, "{text}");
        }
        for (text, word) in [
            ("name: [", "it: "),
            ("{\"name\": ", "it: EOF"),
            ("hello", "a job is an object"),
            ("name: 5", "name: missing, or not a string"),
            ("payload: {}", "name: missing"),
            ("name: a\nname: b", "it: "),
        ] {
            assert!(names(text).contains(word), "{text}: {}", names(text));
        }
    }

    #[test]
    fn half_of_a_file_is_not_taken_for_the_whole() {
        let long = std::io::repeat(b'#');
        let Err(Failure::Refused(error)) = read_whole(long, "it") else { panic!("it was taken") };
        assert!(error.message().contains("larger than"), "{error:?}");
    }

    #[test]
    fn a_job_becomes_a_document_and_is_read_back() {
        let job = json!({
            "job_id": "1", "version": 3, "created_at": "x", "updated_at": "x",
            "next_run_time": null, "status": "ACTIVE", "name": "a\u{1b}b", "job_type": "CRON",
            "cron_expression": "* * * * *", "payload": {"type": "SQL", "sql": "SELECT 1;\nSELECT 2\n"},
            "retry_config": {"max_attempts": 3, "max_retries": 2}, "on_lost": "RETRY",
            "depends_on": [{"job": "7", "on": "SUCCESS"}, {"job": "8", "on": "FAILURE"}],
        });
        let fields = of_job(&job, |id| (id == "7").then(|| "seven".to_owned()));
        let yaml = to_yaml(&[fields.clone(), fields.clone()]).unwrap();
        assert!(yaml.starts_with("name: "), "{yaml}");
        let mut read = Vec::new();
        parse(&yaml, "it", &mut read).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].fields, fields);
        assert_eq!(fields["depends_on"][0]["job"], "seven");
        assert_eq!(fields["depends_on"][1]["job"], "8");
        assert_eq!(fields["retry_config"], json!({"max_attempts": 3}));
        assert!(!fields.contains_key("status") && !fields.contains_key("version"));
    }
}
