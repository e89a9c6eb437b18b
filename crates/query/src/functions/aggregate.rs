//! Aggregate functions.

use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::{Value as Inner, ValueRef};

use super::{Answers, Type};
use crate::budget::Budget;
use crate::value::Kind;

/// The names of the functions.
pub(crate) const NAMES: &[&str] = &[
    "array_agg",
    "bool_and",
    "bool_or",
    "every",
    "percentile_cont",
    "percentile_disc",
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "variance",
];

pub(crate) fn answers(name: &str) -> Option<Answers> {
    Some(Answers::Is(Type::Of(match name {
        "array_agg" => Kind::Text,
        "bool_and" | "bool_or" | "every" => Kind::Bool,
        name if NAMES.contains(&name) => Kind::Float,
        _ => return None,
    })))
}

pub(crate) fn register(connection: &Connection, budget: &Arc<Budget>) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let list = |show| List { budget: Arc::clone(budget), show };
    connection.create_aggregate_function("array_agg", 1, flags, list(show_array))?;
    connection.create_aggregate_function("bool_and", 1, flags, list(show_and))?;
    connection.create_aggregate_function("every", 1, flags, list(show_and))?;
    connection.create_aggregate_function("bool_or", 1, flags, list(show_or))?;
    connection.create_aggregate_function("percentile_cont", 2, flags, list(show_between))?;
    connection.create_aggregate_function("percentile_disc", 2, flags, list(show_nearest))?;
    connection.create_aggregate_function("stddev", 1, flags, list(show_deviation))?;
    connection.create_aggregate_function("stddev_samp", 1, flags, list(show_deviation))?;
    connection.create_aggregate_function("stddev_pop", 1, flags, list(show_deviation_all))?;
    connection.create_aggregate_function("variance", 1, flags, list(show_variance))
}

/// An aggregate that collects all values and computes its result at the end.
struct List {
    budget: Arc<Budget>,
    show: fn(&[Inner], Option<f64>) -> Inner,
}

/// The values so far, and the second argument, which is the same for all.
type Seen = (Vec<Inner>, Option<f64>);

impl Aggregate<Seen, Inner> for List {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Seen> {
        Ok(Seen::default())
    }

    fn step(&self, context: &mut Context<'_>, seen: &mut Seen) -> rusqlite::Result<()> {
        let value = context.get_raw(0);
        let bytes = size_of(value);
        self.budget.spend(bytes)?;
        self.budget.hold(bytes)?;
        seen.0.push(super::own(value));
        if context.len() == 2 {
            seen.1 = match context.get_raw(1) {
                ValueRef::Real(number) => Some(number),
                ValueRef::Integer(number) => Some(number as f64),
                _ => None,
            };
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, seen: Option<Seen>) -> rusqlite::Result<Inner> {
        let (values, second) = seen.unwrap_or_default();
        let held: u64 = values.iter().map(|value| size_of(value.into())).sum();
        crate::memory::count(-i64::try_from(held).unwrap_or(0));
        Ok(if values.is_empty() { Inner::Null } else { (self.show)(&values, second) })
    }
}

/// The approximate size of a value in bytes.
fn size_of(value: ValueRef<'_>) -> u64 {
    32 + value.as_bytes_or_null().ok().flatten().map_or(0, <[u8]>::len) as u64
}

fn show_array(values: &[Inner], _: Option<f64>) -> Inner {
    super::array::array(values.iter().map(ValueRef::from)).into()
}

fn truths(values: &[Inner]) -> impl Iterator<Item = bool> {
    values.iter().filter_map(|value| match value {
        Inner::Integer(number) => Some(*number != 0),
        _ => None,
    })
}

fn show_and(values: &[Inner], _: Option<f64>) -> Inner {
    truths(values).reduce(|a, b| a && b).map_or(Inner::Null, Inner::from)
}

fn show_or(values: &[Inner], _: Option<f64>) -> Inner {
    truths(values).reduce(|a, b| a || b).map_or(Inner::Null, Inner::from)
}

fn numbers(values: &[Inner]) -> Vec<f64> {
    let number = |value: &Inner| match value {
        Inner::Integer(number) => Some(*number as f64),
        Inner::Real(number) => Some(*number),
        _ => None,
    };
    values.iter().filter_map(number).collect()
}

fn sorted(values: &[Inner]) -> Vec<f64> {
    let mut numbers = numbers(values);
    numbers.sort_by(f64::total_cmp);
    numbers
}

fn show_between(values: &[Inner], part: Option<f64>) -> Inner {
    let (numbers, part) = (sorted(values), part.unwrap_or(0.5).clamp(0.0, 1.0));
    let place = part * numbers.len().saturating_sub(1) as f64;
    let (low, high) = (numbers.get(place.floor() as usize), numbers.get(place.ceil() as usize));
    match low.zip(high) {
        Some((low, high)) => (low + (high - low) * place.fract()).into(),
        None => Inner::Null,
    }
}

fn show_nearest(values: &[Inner], part: Option<f64>) -> Inner {
    let (numbers, part) = (sorted(values), part.unwrap_or(0.5).clamp(0.0, 1.0));
    let place = (part * numbers.len() as f64).ceil().max(1.0) as usize - 1;
    numbers.get(place).map_or(Inner::Null, |number| (*number).into())
}

fn spread(values: &[Inner], less: f64) -> Option<f64> {
    let numbers = numbers(values);
    let count = numbers.len() as f64;
    if count <= less {
        return None;
    }
    let mean = numbers.iter().sum::<f64>() / count;
    Some(numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / (count - less))
}

fn show_variance(values: &[Inner], _: Option<f64>) -> Inner {
    spread(values, 1.0).map_or(Inner::Null, Inner::from)
}

fn show_deviation(values: &[Inner], _: Option<f64>) -> Inner {
    spread(values, 1.0).map_or(Inner::Null, |variance| variance.sqrt().into())
}

fn show_deviation_all(values: &[Inner], _: Option<f64>) -> Inner {
    spread(values, 0.0).map_or(Inner::Null, |variance| variance.sqrt().into())
}
