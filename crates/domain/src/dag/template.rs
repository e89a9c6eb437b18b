//! Templates: `${steps.extract.result.path}`, `${params.day}`, `${run.scheduled_for | date}`.
//!
//! A template refers to a value and never computes one. A text that is one template takes the value
//! as it is; a template inside a text takes the value's text. `${secrets.NAME}` is left to the
//! agent.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::exact_number;
use crate::id::RunId;

/// The maximum length of a reference, in bytes.
const REFERENCE_MAX: usize = 500;

/// A reference to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The text between the braces, without spaces around it.
    pub source: String,
    root: Root,
    path: Vec<String>,
    filter: Option<Filter>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Root {
    /// The result of a step.
    Step(String),
    Params,
    Run,
    /// The item of a fan-out, by the name that the step gives it.
    Item(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    Date,
    Time,
    Unix,
    Json,
}

const FILTERS: [(&str, Filter); 4] = [
    ("date", Filter::Date),
    ("time", Filter::Time),
    ("unix", Filter::Unix),
    ("json", Filter::Json),
];

/// Why a template cannot be parsed or resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("${{{reference}}}: {problem}")]
pub struct TemplateError {
    /// The text between the braces.
    pub reference: String,
    /// The problem, and the correct form.
    pub problem: String,
}

/// The values that a step of a DAG run can refer to.
pub struct Scope<'a> {
    /// The id of the DAG run.
    pub run: RunId,
    /// The name of the DAG.
    pub dag: &'a str,
    /// The scheduled time of the DAG run.
    pub scheduled_for: Timestamp,
    /// The time zone of dates: that of the schedule.
    pub zone: TimeZone,
    /// The parameters of the DAG run.
    pub params: &'a Map<String, Value>,
    /// The item of a fan-out: the name, the position and the value.
    pub item: Option<(&'a str, u32, &'a Value)>,
    /// The results of steps, by name; null if the step has none.
    pub result: &'a dyn Fn(&str) -> Option<Value>,
}

impl Template {
    /// Parses the text between the braces.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        let source = source.trim().to_owned();
        let wrong = |problem: &str| {
            Err(TemplateError { reference: source.clone(), problem: problem.to_owned() })
        };
        if source.len() > REFERENCE_MAX {
            return wrong("it is too long");
        }
        let (path, filter) = match source.split_once('|') {
            None => (source.as_str(), None),
            Some((path, name)) => {
                let name = name.trim();
                let Some((_, filter)) = FILTERS.iter().find(|(filter, _)| *filter == name) else {
                    let problem = format!("{name:?} is not a filter: use date, time, unix or json");
                    return wrong(&problem);
                };
                (path.trim(), Some(*filter))
            }
        };
        let Some(mut path) = segments(path) else {
            return wrong("a reference is names with dots between them, such as params.day");
        };
        let first = path.remove(0);
        let root = match first.as_str() {
            "steps" => {
                if path.len() < 2 || path[1] != "result" {
                    return wrong("write steps.NAME.result or steps.NAME.result.PATH");
                }
                let name = path.remove(0);
                path.remove(0);
                Root::Step(name)
            }
            "params" | "config" => Root::Params,
            "run" => match path.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["id" | "dag" | "scheduled_for"] => Root::Run,
                _ => return wrong("a run has run.id, run.dag and run.scheduled_for"),
            },
            _ => Root::Item(first),
        };
        if root == Root::Params && path.is_empty() && filter.is_none() && source == "config" {
            return wrong("write config.NAME");
        }
        Ok(Template { source, root, path, filter })
    }

    /// The step whose result it refers to.
    pub fn step(&self) -> Option<&str> {
        match &self.root {
            Root::Step(name) => Some(name),
            _ => None,
        }
    }

    /// The name of the item that it refers to.
    pub fn item(&self) -> Option<&str> {
        match &self.root {
            Root::Item(name) => Some(name),
            _ => None,
        }
    }

    /// Its value.
    pub fn resolve(&self, scope: &Scope<'_>) -> Result<Value, TemplateError> {
        let wrong = |problem: String| TemplateError { reference: self.source.clone(), problem };
        let missing = |what: &str| wrong(format!("there is no {what}"));
        let value = match &self.root {
            Root::Step(name) => {
                let result = (scope.result)(name);
                let result = result.ok_or_else(|| missing(&format!("result of step {name:?}")))?;
                follow(&result, &self.path).map_err(wrong)?.clone()
            }
            Root::Params if self.path.is_empty() => Value::Object(scope.params.clone()),
            Root::Params => {
                let value = scope.params.get(&self.path[0]);
                let value =
                    value.ok_or_else(|| missing(&format!("parameter {:?}", self.path[0])))?;
                follow(value, &self.path[1..]).map_err(wrong)?.clone()
            }
            Root::Run => match self.path[0].as_str() {
                "id" => Value::String(scope.run.to_string()),
                "dag" => Value::String(scope.dag.to_owned()),
                _ => Value::String(scope.scheduled_for.to_string()),
            },
            Root::Item(name) => match scope.item {
                Some((item, _, value)) if item == name => {
                    follow(value, &self.path).map_err(wrong)?.clone()
                }
                Some((_, index, _)) if name == "index" && self.path.is_empty() => index.into(),
                _ => return Err(missing(&format!("value {name:?}"))),
            },
        };
        match self.filter {
            None => Ok(value),
            Some(Filter::Json) => Ok(Value::String(exact_number::to_text(&value))),
            Some(filter) => {
                let text = value.as_str().unwrap_or_default();
                let time: Timestamp =
                    text.parse().map_err(|_| wrong(format!("{value} is not a time")))?;
                Ok(match filter {
                    Filter::Date => Value::String(date_of(time, &scope.zone)),
                    Filter::Time => {
                        Value::String(time.to_zoned(scope.zone.clone()).time().to_string())
                    }
                    Filter::Unix | Filter::Json => time.as_second().into(),
                })
            }
        }
    }
}

/// The date of a time in a zone, as `2026-01-31`.
pub fn date_of(time: Timestamp, zone: &TimeZone) -> String {
    time.to_zoned(zone.clone()).date().to_string()
}

/// The names of a path: `a.b.0` or `a.b[0]`; none if it is malformed.
pub(super) fn segments(path: &str) -> Option<Vec<String>> {
    let path = path.replace('[', ".").replace(']', "");
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '@'))
    };
    let names: Vec<String> = path.split('.').map(str::to_owned).collect();
    names.iter().all(|name| is_name(name)).then_some(names)
}

/// The value at a path inside a value.
pub(super) fn follow<'v>(value: &'v Value, path: &[String]) -> Result<&'v Value, String> {
    let mut at = value;
    for name in path {
        let next = match at {
            Value::Object(map) => map.get(name),
            Value::Array(list) => name.parse::<usize>().ok().and_then(|place| list.get(place)),
            _ => None,
        };
        at = next.ok_or_else(|| format!("the value has no {name:?}"))?;
    }
    Ok(at)
}

/// A piece of a text.
enum Piece<'t> {
    Text(&'t str),
    Reference(&'t str),
}

/// Splits a text into references and the text between them. Secrets are text.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(start) = text[at..].find("${").map(|found| at + found) {
        let Some(end) = text[start..].find('}').map(|found| start + found) else { break };
        let inside = text[start + 2..end].trim();
        at = end + 1;
        if inside.starts_with("secrets.") {
            continue;
        }
        if from < start {
            pieces.push(Piece::Text(&text[from..start]));
        }
        pieces.push(Piece::Reference(inside));
        from = end + 1;
    }
    if from < text.len() {
        pieces.push(Piece::Text(&text[from..]));
    }
    pieces
}

/// The references of a text, each with the place of its template.
pub(super) fn references(text: &str) -> Vec<(usize, &str)> {
    let mut at = 0;
    let mut found = Vec::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => at += text.len(),
            Piece::Reference(source) => {
                found.push((at, source));
                at += text[at..].find('}').map_or(0, |end| end + 1);
            }
        }
    }
    found
}

/// The first text of a value with a template that does not end.
pub(super) fn unclosed(value: &Value) -> Option<&str> {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => {
                let last = text.rfind("${").map(|at| &text[at..]);
                if last.is_some_and(|last| !last.contains('}')) {
                    return Some(text);
                }
            }
            Value::Array(list) => open.extend(list.iter().rev()),
            Value::Object(map) => open.extend(map.values().rev()),
            _ => {}
        }
    }
    None
}

/// All templates in the texts of a value, each once, in their order.
pub(super) fn templates(value: &Value) -> Result<Vec<Template>, TemplateError> {
    let mut found: Vec<Template> = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => {
                for piece in pieces(text) {
                    let Piece::Reference(source) = piece else { continue };
                    let template = Template::parse(source)?;
                    if !found.iter().any(|known| known.source == template.source) {
                        found.push(template);
                    }
                }
            }
            Value::Array(list) => open.extend(list.iter().rev()),
            Value::Object(map) => open.extend(map.values().rev()),
            _ => {}
        }
    }
    Ok(found)
}

/// A text with its templates replaced. A text that is one template becomes its value.
pub(super) fn fill_text(
    text: &str,
    mut value_of: impl FnMut(&str) -> Result<Value, String>,
) -> Result<Value, String> {
    let pieces = pieces(text);
    if let [Piece::Reference(source)] = pieces[..] {
        return value_of(source);
    }
    let mut filled = String::with_capacity(text.len());
    for piece in pieces {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Reference(source) => filled.push_str(&plain_text(&value_of(source)?)),
        }
    }
    Ok(Value::String(filled))
}

/// The text of a value inside another text: a string without quotes, other values as JSON.
pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => exact_number::to_text(other),
    }
}

/// A value with the templates in its texts replaced. Keys of objects are left as they are.
pub(super) fn fill(
    value: &Value,
    value_of: &mut dyn FnMut(&str) -> Result<Value, String>,
) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => fill_text(text, value_of)?,
        Value::Array(list) => {
            Value::Array(list.iter().map(|value| fill(value, value_of)).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let mut filled = Map::new();
            for (name, value) in map {
                filled.insert(name.clone(), fill(value, value_of)?);
            }
            Value::Object(filled)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn resolved(source: &str) -> String {
        let params = json!({ "day": "2026-01-31", "deep": { "list": [10, 20] } });
        let params = params.as_object().unwrap().clone();
        let item = json!({ "id": 7 });
        let result =
            |step: &str| (step == "extract").then(|| json!({ "path": "s3://x", "rows": 3 }));
        let scope = Scope {
            run: RunId(Uuid::from_u128(1)),
            dag: "etl",
            scheduled_for: "2026-03-29T23:30:00Z".parse().unwrap(),
            zone: TimeZone::fixed(jiff::tz::offset(2)),
            params: &params,
            item: Some(("row", 4, &item)),
            result: &result,
        };
        let template = match Template::parse(source) {
            Ok(template) => template,
            Err(error) => return error.to_string(),
        };
        match template.resolve(&scope) {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn references_find_their_values() {
        for (source, expected) in [
            ("steps.extract.result.path", "\"s3://x\""),
            ("steps.extract.result", r#"{"path":"s3://x","rows":3}"#),
            ("steps.extract.result | json", r#""{\"path\":\"s3://x\",\"rows\":3}""#),
            ("params.day", "\"2026-01-31\""),
            ("config.day", "\"2026-01-31\""),
            ("params.deep.list[1]", "20"),
            ("params.deep.list.0", "10"),
            ("run.scheduled_for", "\"2026-03-29T23:30:00Z\""),
            ("run.scheduled_for | date", "\"2026-03-30\""),
            ("run.scheduled_for|time", "\"01:30:00\""),
            ("run.scheduled_for | unix", "1774827000"),
            ("run.dag", "\"etl\""),
            ("row.id", "7"),
            ("index", "4"),
            ("steps.load.result", "${steps.load.result}: there is no result of step \"load\""),
            ("steps.extract.result.x", "${steps.extract.result.x}: the value has no \"x\""),
            ("params.none", "${params.none}: there is no parameter \"none\""),
            ("other", "${other}: there is no value \"other\""),
            (
                "params.day | upper",
                "${params.day | upper}: \"upper\" is not a filter: use date, time, unix or json",
            ),
            ("params.day | unix", "${params.day | unix}: \"2026-01-31\" is not a time"),
            (
                "steps.extract",
                "${steps.extract}: write steps.NAME.result or steps.NAME.result.PATH",
            ),
            ("run.node", "${run.node}: a run has run.id, run.dag and run.scheduled_for"),
            ("a b", "${a b}: a reference is names with dots between them, such as params.day"),
            ("", "${}: a reference is names with dots between them, such as params.day"),
        ] {
            assert_eq!(resolved(source), expected, "{source}");
        }
    }

    #[test]
    fn values_fill_texts_and_are_not_read_again() {
        let mut value_of = |source: &str| {
            Ok(match source {
                "params.n" => json!(3),
                "params.text" => json!("a ${params.n} b"),
                _ => json!({ "x": [1] }),
            })
        };
        let value = json!({ "a": "${params.n}", "b": ["n = ${params.n}!", "${ params.text }"],
            "c": "${all}", "d": "${all} ${secrets.KEY} ${open", "${params.n}": null });
        let filled = fill(&value, &mut value_of).unwrap();
        let expected = json!({ "a": 3, "b": ["n = 3!", "a ${params.n} b"], "c": { "x": [1] },
            "d": "{\"x\":[1]} ${secrets.KEY} ${open", "${params.n}": null });
        assert_eq!(filled, expected);
        let sources: Vec<String> =
            templates(&json!(["${params.a} ${secrets.B}", { "x": "${params.a}${params.c}" }]))
                .unwrap()
                .into_iter()
                .map(|template| template.source)
                .collect();
        assert_eq!(sources, ["params.a", "params.c"]);
    }
}
