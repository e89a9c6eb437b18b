//! Clauses of simple job fields: syntax, parser and printer follow from the kind of the field.

use std::fmt;

use domain::job::{JobField, Policy, PolicyKind, PolicyValue};
use sqlparser::tokenizer::Token;

use super::{Read, Rule};
use crate::name::{quoted, text};
use crate::print::duration;
use crate::reader::Reader;
use crate::syntax::Result;

/// A parsed clause of a simple field.
#[derive(Clone)]
pub struct PolicyClause {
    /// The field.
    pub field: &'static JobField,
    /// How the field is set.
    pub(crate) policy: &'static Policy,
    /// The value.
    pub value: PolicyValue,
}

impl PartialEq for PolicyClause {
    fn eq(&self, other: &Self) -> bool {
        (self.field, &self.value) == (other.field, &other.value)
    }
}

impl fmt::Debug for PolicyClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.field.name, self.value)
    }
}

/// The rule of a clause.
pub(super) fn rule(
    clause: &'static str,
    field: &'static JobField,
    policy: &'static Policy,
) -> Rule {
    let mut form = match policy.kind {
        PolicyKind::Word(kind) => kind.words.join(" | "),
        PolicyKind::Duration => "duration".to_owned(),
        PolicyKind::Count(_) => match policy.range {
            (least, Some(most)) => format!("{} ... {most}", least.unwrap_or(0)),
            _ => "n".to_owned(),
        },
        PolicyKind::Text if policy.noun.is_empty() => "'text'".to_owned(),
        PolicyKind::Text => policy.noun.to_owned(),
        PolicyKind::Flag => "TRUE | FALSE".to_owned(),
        PolicyKind::List => format!("('{}', ...)", policy.noun),
    };
    if policy.is_optional {
        form.push_str(" | NONE");
    }
    let form = format!("{}{form}", if clause.contains(' ') { "" } else { "= " });
    Rule {
        words: clause.split(' ').collect(),
        form,
        side: field.name,
        read: Read::Policy(field, policy),
    }
}

/// Parses the value of a clause.
pub(super) fn read(policy: &Policy, reader: &mut Reader<'_>) -> Result<PolicyValue> {
    if policy.is_optional && reader.eat_none() {
        return Ok(PolicyValue::Absent);
    }
    Ok(match policy.kind {
        PolicyKind::Word(kind) => {
            let words: Vec<_> = kind.words.iter().map(|word| (*word, *word)).collect();
            PolicyValue::Word(reader.one_of(&words)?.value)
        }
        PolicyKind::Duration => PolicyValue::Duration(reader.duration()?.value),
        PolicyKind::Count(limit) => {
            let what = match policy.range {
                (least, Some(most)) => format!("a number from {} to {most}", least.unwrap_or(0)),
                _ => "a whole number".to_owned(),
            };
            let count = reader.ahead(0).whole::<u32>(&what)?.value;
            if count > limit {
                return Err(reader.unexpected(&what));
            }
            PolicyValue::Count(reader.whole(&what)?.value)
        }
        PolicyKind::Text if policy.noun.is_empty() => {
            PolicyValue::Text(reader.text("a text in quotes")?.value)
        }
        PolicyKind::Text => {
            let what = format!("the name of a {}", policy.noun);
            PolicyValue::Text(reader.text_or_name(&what)?.value)
        }
        PolicyKind::Flag => {
            PolicyValue::Flag(reader.one_of(&[("TRUE", true), ("FALSE", false)])?.value)
        }
        PolicyKind::List => PolicyValue::List(list(policy, reader)?),
    })
}

/// Words in parentheses, or without them.
fn list(policy: &Policy, reader: &mut Reader<'_>) -> Result<Vec<String>> {
    if reader.eat_none() {
        return Ok(Vec::new());
    }
    let what = format!("a {}", policy.noun);
    let word = |reader: &mut Reader<'_>| Ok(reader.text_or_name(&what)?.value);
    match reader.is_sign(0, &Token::LParen) {
        true => reader.in_parentheses(word),
        false => reader.list(word),
    }
}

/// Prints a clause.
pub(crate) fn printed(clause: &str, policy: &Policy, value: &PolicyValue) -> String {
    let value = match value {
        PolicyValue::Absent => "NONE".to_owned(),
        PolicyValue::Word(word) => (*word).to_owned(),
        PolicyValue::Duration(length) => duration(*length),
        PolicyValue::Count(count) => count.to_string(),
        PolicyValue::Text(it) if policy.noun.is_empty() => text(it),
        PolicyValue::Text(it) => quoted(it),
        PolicyValue::Flag(is_set) => is_set.to_string().to_ascii_uppercase(),
        PolicyValue::List(words) => {
            format!("({})", words.iter().map(|it| text(it)).collect::<Vec<_>>().join(", "))
        }
    };
    format!("{clause}{}{value}", if clause.contains(' ') { " " } else { " = " })
}
