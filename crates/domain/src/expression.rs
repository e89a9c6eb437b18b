//! A small expression language: it selects a shard, or decides whether a step of a DAG runs. It can
//! use only the values that it is given, by name or by path (`steps.extract.result.rows`).
//!
//! There are no loops, no tables, no clock and no randomness. The length and depth of an expression
//! are limited when it is parsed, and the size of its strings when it is evaluated, so the worst
//! that it can do is fail.
//!
//! ```text
//!   or    = and ("OR" and)*              sum   = term (("+" | "-" | "||") term)*
//!   and   = not ("AND" not)*             term  = sign (("*" | "/" | "%") sign)*
//!   not   = "NOT" not | compare          sign  = "-" sign | atom
//!   compare = sum (("=" | "<>" | "!=" | "<" | "<=" | ">" | ">=") sum | "IS" ["NOT"] "NULL")?
//!   atom  = number | 'text' | path | :name | function "(" list ")" | CASE … END | "(" or ")"
//!   path  = name ("." name | "[" number | 'text' "]")*
//! ```

use std::cmp::Ordering;
use std::str::FromStr;

use serde_json::Value as Json;

use crate::exact_number;
use crate::shard::{Shard, weight};

mod parse;

/// The maximum length of an expression, in bytes.
pub const LENGTH_MAX: usize = 1_000;

/// The maximum depth of an expression.
const DEPTH_MAX: usize = 32;

/// The maximum length of a computed string, in bytes.
const TEXT_MAX: usize = 10_000;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression(Node);

/// Why an expression cannot be parsed or evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// Syntax error.
    #[error("at character {at}: {problem}")]
    Syntax {
        /// The position, from 1.
        at: usize,
        /// The problem, and the correct syntax.
        problem: String,
    },
    /// A missing parameter.
    #[error("the run has no parameter {0:?}")]
    Missing(String),
    /// An evaluation error.
    #[error("{0}")]
    Compute(String),
    /// The result is not a shard.
    #[error("{0}")]
    NoShard(String),
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Constant(Value),
    Parameter(String),
    Not(Box<Node>),
    Negative(Box<Node>),
    IsNull(Box<Node>, bool),
    Binary(Operator, Box<Node>, Box<Node>),
    Case(Vec<(Node, Node)>, Box<Node>),
    Call(Function, Vec<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Concat,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    ShardKey,
    Hash,
    ShardCount,
    Mod,
    Abs,
    Lower,
    Upper,
    Length,
    Left,
    Right,
    Substr,
    Concat,
    Coalesce,
}

/// Every function, with its minimum and maximum number of arguments.
const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("SHARD_KEY", Function::ShardKey, 1, 1),
    ("HASH", Function::Hash, 1, 1),
    ("SHARD_COUNT", Function::ShardCount, 0, 0),
    ("MOD", Function::Mod, 2, 2),
    ("ABS", Function::Abs, 1, 1),
    ("LOWER", Function::Lower, 1, 1),
    ("UPPER", Function::Upper, 1, 1),
    ("LENGTH", Function::Length, 1, 1),
    ("LEFT", Function::Left, 2, 2),
    ("RIGHT", Function::Right, 2, 2),
    ("SUBSTR", Function::Substr, 2, 3),
    ("CONCAT", Function::Concat, 1, 10),
    ("COALESCE", Function::Coalesce, 1, 10),
];

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Null,
    Bool(bool),
    Integer(i64),
    Decimal(f64),
    Text(String),
    /// A list or an object: it has a length, and can be compared with null only.
    Nested(usize),
}

type Result<T> = std::result::Result<T, ExpressionError>;

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self> {
        parse::parse(text).map(Expression)
    }
}

impl Expression {
    /// The shard that it returns: a string is a name or an id, an integer the position among the
    /// shards by name, from 0.
    pub fn shard<'s>(
        &self,
        shards: &'s [Shard],
        values: &serde_json::Map<String, Json>,
    ) -> Result<&'s Shard> {
        let lookup = |name: &str| values.get(name).cloned();
        let value = Run { shards, lookup: &lookup }.compute(&self.0)?;
        let none = |text: String| ExpressionError::NoShard(text);
        match value {
            Value::Text(name) => shards
                .iter()
                .find(|shard| shard.is_called(&name))
                .ok_or_else(|| none(format!("it says {name:?}, and there is no such shard"))),
            Value::Integer(place) => {
                let mut sorted: Vec<&Shard> = shards.iter().collect();
                sorted.sort_by(|a, b| a.name.cmp(&b.name));
                let shard =
                    usize::try_from(place).ok().and_then(|place| sorted.get(place).copied());
                let most = shards.len().saturating_sub(1);
                shard.ok_or_else(|| {
                    none(format!("it says {place}; the places of the shards are 0 to {most}"))
                })
            }
            other => Err(none(format!(
                "the result {} is not the name, the id or the position of a shard",
                other.shown()
            ))),
        }
    }
}

impl Expression {
    /// Whether it is true. `lookup` finds the value of a name or a path. Null is not true.
    pub fn is_true(&self, lookup: &dyn Fn(&str) -> Option<Json>) -> Result<bool> {
        let value = Run { shards: &[], lookup }.compute(&self.0)?;
        Ok(value.truth()?.unwrap_or(false))
    }

    /// The names and paths that it refers to.
    pub fn paths(&self) -> Vec<&str> {
        let mut paths = Vec::new();
        let mut open = vec![&self.0];
        while let Some(node) = open.pop() {
            match node {
                Node::Constant(_) => {}
                Node::Parameter(path) => paths.push(path.as_str()),
                Node::Not(inner) | Node::Negative(inner) | Node::IsNull(inner, _) => {
                    open.push(inner);
                }
                Node::Binary(_, left, right) => open.extend([&**left, &**right]),
                Node::Case(branches, otherwise) => {
                    open.extend(branches.iter().flat_map(|(when, then)| [when, then]));
                    open.push(otherwise);
                }
                Node::Call(_, arguments) => open.extend(arguments),
            }
        }
        paths
    }
}

impl Value {
    fn from_json(json: &Json) -> Self {
        match json {
            Json::Null => Value::Null,
            Json::Bool(yes) => Value::Bool(*yes),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => Value::Integer(number),
                (None, Some(number)) => Value::Decimal(number),
                (None, None) => Value::Text(number.to_string()),
            },
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(list) => Value::Nested(list.len()),
            Json::Object(map) => match exact_number::rounded(json) {
                Some(number) => Value::Decimal(number),
                None => Value::Nested(map.len()),
            },
        }
    }

    fn shown(&self) -> String {
        match self {
            Value::Null => "NULL".into(),
            Value::Bool(yes) => yes.to_string().to_uppercase(),
            Value::Integer(number) => number.to_string(),
            Value::Decimal(number) => number.to_string(),
            Value::Text(text) => format!("{text:?}"),
            Value::Nested(_) => "a list or an object".into(),
        }
    }

    fn text(self) -> Result<String> {
        match self {
            Value::Null => Err(ExpressionError::Compute("NULL has no text".into())),
            Value::Text(text) => Ok(text),
            Value::Bool(yes) => Ok(yes.to_string()),
            Value::Integer(number) => Ok(number.to_string()),
            // A fraction cannot be a position; as a key it is its text.
            Value::Decimal(number) => Ok(number.to_string()),
            Value::Nested(_) => {
                let text = "a value is a list or an object, not a plain value";
                Err(ExpressionError::Compute(text.into()))
            }
        }
    }

    fn integer(self) -> Result<i64> {
        match self {
            Value::Integer(number) => Ok(number),
            Value::Text(text) => text
                .trim()
                .parse()
                .map_err(|_| ExpressionError::Compute(format!("{text:?} is not a whole number"))),
            other => {
                Err(ExpressionError::Compute(format!("{} is not a whole number", other.shown())))
            }
        }
    }

    fn decimal(&self) -> f64 {
        match self {
            Value::Integer(number) => *number as f64,
            Value::Decimal(number) => *number,
            _ => f64::NAN,
        }
    }

    fn truth(self) -> Result<Option<bool>> {
        match self {
            Value::Null => Ok(None),
            Value::Bool(yes) => Ok(Some(yes)),
            other => Err(ExpressionError::Compute(format!(
                "{} is neither true nor false",
                other.shown()
            ))),
        }
    }

    fn compare(&self, other: &Value) -> Result<Option<Ordering>> {
        Ok(Some(match (self, other) {
            (Value::Null, _) | (_, Value::Null) => return Ok(None),
            (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
            (Value::Integer(_) | Value::Decimal(_), Value::Integer(_) | Value::Decimal(_)) => {
                return Ok(self.decimal().partial_cmp(&other.decimal()));
            }
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (a, b) => {
                let text = format!("{} and {} cannot be compared", a.shown(), b.shown());
                return Err(ExpressionError::Compute(text));
            }
        }))
    }
}

/// The context of an evaluation.
struct Run<'a> {
    shards: &'a [Shard],
    lookup: &'a dyn Fn(&str) -> Option<Json>,
}

impl Run<'_> {
    fn compute(&self, node: &Node) -> Result<Value> {
        Ok(match node {
            Node::Constant(value) => value.clone(),
            Node::Parameter(name) => {
                let found = (self.lookup)(name);
                Value::from_json(&found.ok_or_else(|| ExpressionError::Missing(name.clone()))?)
            }
            Node::Not(inner) => match self.compute(inner)?.truth()? {
                Some(yes) => Value::Bool(!yes),
                None => Value::Null,
            },
            Node::Negative(inner) => match self.compute(inner)? {
                Value::Null => Value::Null,
                Value::Decimal(number) => Value::Decimal(-number),
                value => number(value.integer()?.checked_neg())?,
            },
            Node::IsNull(inner, wanted) => {
                Value::Bool((self.compute(inner)? == Value::Null) == *wanted)
            }
            Node::Binary(operator, left, right) => self.binary(*operator, left, right)?,
            Node::Case(branches, otherwise) => {
                for (condition, then) in branches {
                    if self.compute(condition)?.truth()? == Some(true) {
                        return self.compute(then);
                    }
                }
                self.compute(otherwise)?
            }
            Node::Call(function, arguments) => self.call(*function, arguments)?,
        })
    }

    fn binary(&self, operator: Operator, left: &Node, right: &Node) -> Result<Value> {
        let left = self.compute(left)?;
        if let Operator::And | Operator::Or = operator {
            let decided = operator == Operator::Or;
            return Ok(match (left.truth()?, self.compute(right)?.truth()?) {
                (Some(yes), _) | (_, Some(yes)) if yes == decided => Value::Bool(decided),
                (Some(_), Some(_)) => Value::Bool(!decided),
                _ => Value::Null,
            });
        }
        let right = self.compute(right)?;
        if left == Value::Null || right == Value::Null {
            return Ok(Value::Null);
        }
        let order = |wanted: &[Ordering]| {
            let order = left.compare(&right)?;
            Ok(order.map_or(Value::Null, |order| Value::Bool(wanted.contains(&order))))
        };
        match operator {
            Operator::Equal => order(&[Ordering::Equal]),
            Operator::Unequal => order(&[Ordering::Less, Ordering::Greater]),
            Operator::Less => order(&[Ordering::Less]),
            Operator::LessOrEqual => order(&[Ordering::Less, Ordering::Equal]),
            Operator::Greater => order(&[Ordering::Greater]),
            Operator::GreaterOrEqual => order(&[Ordering::Greater, Ordering::Equal]),
            Operator::Concat => text(left.text()? + &right.text()?),
            _ if matches!(left, Value::Decimal(_)) || matches!(right, Value::Decimal(_)) => {
                decimal(operator, left.decimal(), right.decimal())
            }
            _ => arithmetic(operator, left.integer()?, right.integer()?),
        }
    }

    fn call(&self, function: Function, arguments: &[Node]) -> Result<Value> {
        if function == Function::Coalesce {
            for argument in arguments {
                // A missing value is null.
                match self.compute(argument) {
                    Ok(Value::Null) | Err(ExpressionError::Missing(_)) => {}
                    other => return other,
                }
            }
            return Ok(Value::Null);
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.compute(argument)?);
        }
        if values.contains(&Value::Null) {
            return Ok(Value::Null);
        }
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap_or(Value::Null);
        match function {
            Function::ShardKey => {
                let key = next().text()?;
                let heaviest = self
                    .shards
                    .iter()
                    .max_by_key(|shard| (weight(shard.id.0, key.as_bytes()), shard.id));
                Ok(heaviest.map_or(Value::Null, |shard| Value::Text(shard.id.to_string())))
            }
            Function::Hash => {
                let key = next().text()?;
                Ok(Value::Integer((weight(uuid::Uuid::nil(), key.as_bytes()) >> 1).cast_signed()))
            }
            Function::ShardCount => Ok(Value::Integer(self.shards.len() as i64)),
            Function::Mod => arithmetic(Operator::Remainder, next().integer()?, next().integer()?),
            Function::Abs => number(next().integer()?.checked_abs()),
            Function::Lower => text(next().text()?.to_lowercase()),
            Function::Upper => text(next().text()?.to_uppercase()),
            Function::Length => match next() {
                Value::Nested(length) => Ok(Value::Integer(length as i64)),
                value => Ok(Value::Integer(value.text()?.chars().count() as i64)),
            },
            Function::Left => {
                let (of, count) = (next().text()?, next().integer()?);
                text(of.chars().take(count.max(0) as usize).collect())
            }
            Function::Right => {
                let (of, count) = (next().text()?, next().integer()?);
                let skip = of.chars().count().saturating_sub(count.max(0) as usize);
                text(of.chars().skip(skip).collect())
            }
            Function::Substr => {
                let (of, from) = (next().text()?, next().integer()?);
                let count = match next() {
                    Value::Null => usize::MAX,
                    count => count.integer()?.max(0) as usize,
                };
                text(of.chars().skip(from.saturating_sub(1).max(0) as usize).take(count).collect())
            }
            Function::Concat => {
                let mut whole = String::new();
                for value in values {
                    whole += &value.text()?;
                }
                text(whole)
            }
            Function::Coalesce => Ok(Value::Null),
        }
    }
}

fn arithmetic(operator: Operator, left: i64, right: i64) -> Result<Value> {
    if right == 0 && matches!(operator, Operator::Divide | Operator::Remainder) {
        return Err(ExpressionError::Compute(format!("{left} is divided by zero")));
    }
    number(match operator {
        Operator::Add => left.checked_add(right),
        Operator::Subtract => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide => left.checked_div(right),
        _ => left.checked_rem(right),
    })
}

fn decimal(operator: Operator, left: f64, right: f64) -> Result<Value> {
    let value = match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        _ => left % right,
    };
    if value.is_finite() {
        return Ok(Value::Decimal(value));
    }
    Err(ExpressionError::Compute("the result is not a number".into()))
}

fn number(number: Option<i64>) -> Result<Value> {
    let large = || ExpressionError::Compute("a number is too large".into());
    number.map(Value::Integer).ok_or_else(large)
}

fn text(text: String) -> Result<Value> {
    if text.len() > TEXT_MAX {
        let long = format!("a text is longer than {TEXT_MAX} bytes");
        return Err(ExpressionError::Compute(long));
    }
    Ok(Value::Text(text))
}
