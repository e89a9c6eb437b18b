//! Procedures and functions by name.

use domain::action::ProcedureAction;
use serde_json::Value;
use tokio_postgres::Row;

use super::super::parameter;
use super::super::script::Statement;
use super::failure::describe;
use super::quoted;
use super::session::AttemptSession;
use crate::Attempt;
use crate::exec::Failure;
use crate::secrets::resolve;

/// The longest name that PostgreSQL keeps.
const NAME_BYTES_MAX: usize = 63;

/// Every routine that the name can mean: whether it is a procedure, whether it returns a record
/// without columns, how its arguments are passed, and how many inputs may be left out.
const CANDIDATES: &str = "
    SELECT p.prokind = 'p', p.prorettype = 'record'::regtype AND p.proargmodes IS NULL,
           coalesce(p.proargmodes::text[], array_fill('i'::text, ARRAY[p.pronargs::int])),
           p.pronargdefaults::int
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE p.proname = $1
        AND CASE WHEN $2::text IS NULL THEN pg_catalog.pg_function_is_visible(p.oid) ELSE n.nspname = $2 END
    ORDER BY p.oid";

/// A call as the job wants it.
pub(super) struct ProcedureCall {
    schema: Option<String>,
    name: String,
    arguments: Vec<Value>,
}

/// A call as the server understands it.
pub(super) struct ResolvedCall {
    pub statement: Statement,
    pub values: Vec<(String, Value)>,
    /// Whether it may end transactions, and so must not be inside of one.
    pub may_commit: bool,
}

impl ProcedureCall {
    pub async fn read(attempt: &Attempt<'_>, action: &ProcedureAction) -> Result<Self, Failure> {
        let mut parts = name(&action.procedure).map_err(|problem| {
            Failure::other("BAD_NAME", format!("procedure: {:?} {problem}", action.procedure))
        })?;
        let name = parts.pop().unwrap_or_default();
        let mut arguments = Vec::with_capacity(action.arguments.len());
        for argument in &action.arguments {
            arguments.push(match argument {
                Value::String(text) => match reference(text) {
                    Some(name) => parameter(attempt, name)?.clone(),
                    None => {
                        let text = resolve(text, attempt.assignment, attempt.secrets).await;
                        Value::String(
                            text.map_err(|error| Failure::secret("arguments", &error))?
                                .into_owned(),
                        )
                    }
                },
                other => other.clone(),
            });
        }
        Ok(ProcedureCall { schema: parts.pop(), name, arguments })
    }

    /// Looks the routine up. A missing one is called all the same: the error of the server is the
    /// most specific one.
    pub async fn find(&self, session: &AttemptSession) -> Result<ResolvedCall, Failure> {
        let rows = session.client.query(CANDIDATES, &[&self.name, &self.schema]).await;
        let rows = rows.map_err(|error| describe(&error, None))?;
        let mut candidates = Vec::new();
        for row in &rows {
            candidates.push(Routine::read(row).map_err(|error| describe(&error, None))?);
        }
        let given = self.arguments.len();
        let routine = candidates.iter().find(|routine| routine.takes(given)).or(candidates.first());
        let arguments = match routine {
            Some(routine) => routine.arguments(given),
            None => (1..=given).map(|at| format!("${at}")).collect(),
        };
        let schema = self.schema.as_ref().map(|schema| quoted(schema) + ".").unwrap_or_default();
        let call = format!("{schema}{}({})", quoted(&self.name), arguments.join(", "));
        let text = match routine {
            Some(routine) if !routine.is_procedure && routine.is_record => format!("SELECT {call}"),
            Some(routine) if !routine.is_procedure => format!("SELECT * FROM {call}"),
            _ => format!("CALL {call}"),
        };
        let names: Vec<String> = (1..=given).map(|at| format!("argument {at}")).collect();
        let values = names.iter().cloned().zip(self.arguments.iter().cloned()).collect();
        let mut statement = Statement::own(text);
        statement.parameters = names;
        let may_commit = routine.is_none_or(|routine| routine.is_procedure);
        Ok(ResolvedCall { statement, values, may_commit })
    }
}

struct Routine {
    is_procedure: bool,
    is_record: bool,
    /// `i`n, `o`ut, `b`oth, `v`ariadic, and `t`he columns of a table.
    modes: Vec<String>,
    defaults: usize,
}

impl Routine {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let defaults: i32 = row.try_get(3)?;
        Ok(Routine {
            is_procedure: row.try_get(0)?,
            is_record: row.try_get(1)?,
            modes: row.try_get(2)?,
            defaults: usize::try_from(defaults).unwrap_or(0),
        })
    }

    /// Whether it can be called with so many inputs.
    fn takes(&self, given: usize) -> bool {
        let inputs = self.modes.iter().filter(|mode| matches!(mode.as_str(), "i" | "b" | "v"));
        let inputs = inputs.count();
        let is_variadic = self.modes.iter().any(|mode| mode == "v");
        let least = inputs - self.defaults.min(inputs) - usize::from(is_variadic);
        given >= least && (given <= inputs || is_variadic)
    }

    /// The arguments of the call. An OUT parameter has a position in the call too, filled with
    /// NULL.
    fn arguments(&self, given: usize) -> Vec<String> {
        let mut numbers = (1..=given).map(|at| format!("${at}"));
        let mut arguments = Vec::new();
        if self.is_procedure && self.takes(given) {
            for mode in &self.modes {
                match mode.as_str() {
                    "o" => arguments.push("NULL".to_owned()),
                    _ => match numbers.next() {
                        Some(number) => arguments.push(number),
                        // From here on the defaults count.
                        None => break,
                    },
                }
            }
        }
        arguments.extend(numbers);
        arguments
    }
}

/// The name of the parameter that a text stands for.
fn reference(text: &str) -> Option<&str> {
    let name = text.strip_prefix(':')?;
    let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    (begins && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}

/// The parts of a name, `name` or `schema.name`, each as the server keeps it: without quotes in
/// small letters.
fn name(text: &str) -> Result<Vec<String>, String> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = part(rest)?;
        if part.len() > NAME_BYTES_MAX {
            return Err(format!("has a part that is longer than {NAME_BYTES_MAX} bytes"));
        }
        parts.push(part);
        match after.strip_prefix('.') {
            Some(after) => rest = after,
            None if after.is_empty() => break,
            None => return Err(format!("is no name: {after:?} cannot follow")),
        }
    }
    match parts.len() {
        1 | 2 => Ok(parts),
        _ => Err("has too many parts: write name or schema.name".to_owned()),
    }
}

/// The first part of a name, and what follows.
fn part(text: &str) -> Result<(String, &str), String> {
    if let Some(inside) = text.strip_prefix('"') {
        let mut part = String::new();
        let mut chars = inside.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if chars.next_if(|(_, next)| *next == '"').is_some() => part.push('"'),
                '"' if part.is_empty() => break,
                '"' => return Ok((part, &inside[at + 1..])),
                c => part.push(c),
            }
        }
        return Err("has a part in quotes that is empty or not closed".to_owned());
    }
    let is_of_name = |c: char| c == '_' || c == '$' || c.is_ascii_alphanumeric() || !c.is_ascii();
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    let (part, after) = text.split_at(end);
    match part.chars().next() {
        None => Err("is no name: write name or schema.name".to_owned()),
        Some(c) if c.is_ascii_digit() || c == '$' => {
            Err(format!("is no name: it cannot begin with {c:?}"))
        }
        Some(_) => Ok((part.to_ascii_lowercase(), after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, expected) in [
            ("refresh", "refresh"),
            ("Refresh", "refresh"),
            ("sales.Refresh_2", "sales|refresh_2"),
            ("\"Sales\".\"My \"\"Proc\"\"\"", "Sales|My \"Proc\""),
            (" a.b ", "a|b"),
            ("größe", "größe"),
            ("a;b", "is no name: \";b\" cannot follow"),
            ("a b", "is no name: \" b\" cannot follow"),
            ("a()", "is no name: \"()\" cannot follow"),
            ("a.b.c", "has too many parts: write name or schema.name"),
            ("a.", "is no name: write name or schema.name"),
            ("1a", "is no name: it cannot begin with '1'"),
            ("\"a", "has a part in quotes that is empty or not closed"),
            ("\"\"", "has a part in quotes that is empty or not closed"),
            ("a--", "is no name: \"--\" cannot follow"),
        ] {
            let answer = name(text).map_or_else(|problem| problem, |parts| parts.join("|"));
            assert_eq!(answer, expected, "{text}");
        }
        assert!(name(&"x".repeat(64)).is_err());
    }

    #[test]
    fn references() {
        for (text, expected) in [
            (":day", Some("day")),
            (":_a1", Some("_a1")),
            ("day", None),
            (":", None),
            (":1", None),
            (": day", None),
            ("::day", None),
            (":a-b", None),
        ] {
            assert_eq!(reference(text), expected, "{text}");
        }
    }

    #[test]
    fn arguments_fit_the_routine() {
        let routine = |modes: &str, defaults| Routine {
            is_procedure: true,
            is_record: false,
            modes: modes.chars().map(String::from).collect(),
            defaults,
        };
        for (modes, defaults, given, expected) in [
            ("", 0, 0, ""),
            ("ii", 0, 2, "$1, $2"),
            ("io", 0, 1, "$1, NULL"),
            ("oi", 0, 1, "NULL, $1"),
            ("ibo", 0, 2, "$1, $2, NULL"),
            ("ii", 1, 1, "$1"),
            ("iv", 0, 4, "$1, $2, $3, $4"),
            // All places filled by hand, and a wrong number: the server decides.
            ("io", 0, 2, "$1, $2"),
            ("i", 0, 3, "$1, $2, $3"),
        ] {
            let arguments = routine(modes, defaults).arguments(given).join(", ");
            assert_eq!(arguments, expected, "{modes} {given}");
        }
    }
}
