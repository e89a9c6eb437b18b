//! The parser with random text: it accepts the text, or points into it.

use domain::schedule::{Cron, CronSchedule, DstPolicy};
use proptest::prelude::*;
use testbed::property::{self, Plan};
use testbed::seed::Test;

use crate::{instant, zone};

/// The same inputs in every run, and fresh ones.
fn plan(test: Test) -> Plan {
    Plan { test, seed: 0x5eed_f022, cases: 10_000 }
}

/// An expression is accepted and fires, or is refused with a span inside the text.
fn check(text: &str) -> Result<(), TestCaseError> {
    match text.parse::<Cron>() {
        Ok(cron) => {
            let engine = CronSchedule::new(cron, zone("Europe/Berlin"), DstPolicy::default());
            let after = instant("2026-11-15T00:00:00Z");
            // Every accepted expression has a date within 400 years; only a wall time that its
            // zone has abolished may have no occurrence.
            if let Some(next) = engine.next(after) {
                prop_assert!(next > after, "{text:?}: {next}");
                prop_assert!(engine.prev(next).is_none_or(|prev| prev < next));
            }
        }
        Err(error) => {
            prop_assert!(error.span.start <= error.span.end, "{text:?}: {error:?}");
            let blank = text.trim_ascii().is_empty();
            prop_assert!(blank || !error.span.is_empty(), "{text:?}: {error:?}");
            prop_assert!(
                text.get(error.span.clone()).is_some(),
                "{text:?}: the span leaves the text or cuts a character: {error:?}"
            );
            prop_assert!(!error.problem.is_empty(), "{text:?}: {error:?}");
            prop_assert_eq!(error.problem.trim(), &error.problem, "{:?}", text);
        }
    }
    Ok(())
}

/// Pieces of the grammar, and pieces that almost belong to it.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "*", "/", "-", ",", "#", "L", "W", "LW", "?", "@", " ", " ", " ", "\t", "0", "1", "7",
            "31", "59", "60", "MON", "sun", "Jan", "DEC", "@daily", "@reboot", "MON#5", "15W",
            "5L", "*/2", "1-5", "29 2", "\0", "\u{a0}", "é", "٥", "-1", "+", ".", "18446744073709551616",
        ])
        .prop_map(str::to_owned),
        2 => any::<u8>().prop_map(|number| number.to_string()),
        1 => any::<char>().prop_map(|char| char.to_string()),
    ]
}

/// A valid expression to start from.
fn valid() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "* * * * *",
        "*/15 9-17 * * MON-FRI",
        "0 0 29 2 */7",
        "0 0 LW 2 *",
        "5,10-20/3,30 1/4 1W,L JAN-MAR,dec SUN#1,5L",
        "@weekly",
        "0 12 ? * MON#5",
        "59 23 31 12 FRI-SUN",
    ])
    .prop_map(str::to_owned)
}

/// Mutation of a valid expression: `(position, number of deleted characters, inserted text)`.
fn mutation() -> impl Strategy<Value = (prop::sample::Index, usize, String)> {
    (any::<prop::sample::Index>(), 0_usize..4, prop_oneof![Just(String::new()), piece()])
}

#[test]
fn arbitrary_text() {
    let plan = plan(testbed::this_test!("arbitrary_text"));
    property::check(plan, &any::<String>(), |text| check(&text));
}

#[test]
fn arbitrary_pieces() {
    let plan = plan(testbed::this_test!("arbitrary_pieces"));
    let pieces = prop::collection::vec(piece(), 0..40);
    property::check(plan, &pieces, |pieces| check(&pieces.concat()));
}

#[test]
fn arbitrary_fields() {
    let plan = plan(testbed::this_test!("arbitrary_fields"));
    let field = prop::collection::vec(piece(), 1..5).prop_map(|pieces| pieces.concat());
    let fields = prop::collection::vec(field, 5..=5);
    property::check(plan, &fields, |fields| check(&fields.join(" ")));
}

#[test]
fn mutated_expressions() {
    let plan = plan(testbed::this_test!("mutated_expressions"));
    let mutated = (valid(), prop::collection::vec(mutation(), 1..4));
    property::check(plan, &mutated, |(text, mutations)| {
        let mut chars: Vec<char> = text.chars().collect();
        for (index, gone, come) in mutations {
            let from = index.index(chars.len() + 1);
            let to = (from + gone).min(chars.len());
            chars.splice(from..to, come.chars());
        }
        check(&chars.into_iter().collect::<String>())
    });
}
