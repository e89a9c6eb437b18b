//! Differences between two versions of a job, field by field.

use serde_json::Value;

/// A field whose value differs. A side that has no such field has no value.
#[derive(Debug, PartialEq)]
pub struct Change {
    /// Where it is: `payload.headers.Accept`.
    pub path: String,
    /// The old value.
    pub from: Option<Value>,
    /// The new value.
    pub to: Option<Value>,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{}: {from} -> {to}", self.path),
            (None, Some(to)) => write!(f, "{}: {to} (new)", self.path),
            (Some(from), None) => write!(f, "{}: {from} (removed)", self.path),
            (None, None) => write!(f, "{}", self.path),
        }
    }
}

/// The fields that differ. Objects are compared field by field, lists as a whole, numbers by
/// what they mean; a field that is null is one that is absent.
pub fn diff(from: &Value, to: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    compare("", Some(from), Some(to), &mut changes);
    changes
}

fn compare(path: &str, from: Option<&Value>, to: Option<&Value>, changes: &mut Vec<Change>) {
    let from = from.filter(|value| !value.is_null());
    let to = to.filter(|value| !value.is_null());
    match (from, to) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut fields: Vec<&String> = a.keys().chain(b.keys()).collect();
            fields.sort();
            fields.dedup();
            for field in fields {
                let path = match path {
                    "" => field.clone(),
                    _ => format!("{path}.{field}"),
                };
                compare(&path, a.get(field), b.get(field), changes);
            }
        }
        (Some(a), Some(b)) if is_same(a, b) => {}
        (None, None) => {}
        (from, to) => {
            changes.push(Change { path: path.to_owned(), from: from.cloned(), to: to.cloned() })
        }
    }
}

/// Whether two values are equal: 60 and 60.0 are.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(field, a)| b.get(field).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_have_paths() {
        let from = json!({"a": 1, "b": {"c": [1], "d": "x"}, "e": null, "f": 60, "h": {"i": 1}});
        let to = json!({"a": 2, "b": {"c": [1, 2]}, "f": 60.0, "g": {"x": 1}, "h": {"i": 1.0}});
        let shown: Vec<String> = diff(&from, &to).iter().map(Change::to_string).collect();
        assert_eq!(
            shown,
            ["a: 1 -> 2", "b.c: [1] -> [1,2]", "b.d: \"x\" (removed)", "g: {\"x\":1} (new)"]
        );
        assert_eq!(diff(&from, &from), []);
    }
}
