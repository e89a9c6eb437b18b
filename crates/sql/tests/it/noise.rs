//! Random input: every text is parsed, or refused with a position inside of it.

use proptest::prelude::*;
use testbed::property::{self, Plan};
use testbed::seed::Test;

use crate::{data, define, examples};

/// The same inputs in every run, and fresh ones.
fn plan(test: Test) -> Plan {
    Plan { test, seed: 0x5eed_0501, cases: 3_000 }
}

/// Parses a text, and defines the jobs of its statements.
fn check(text: &str) {
    match sql::parse(text) {
        Ok(parsed) => {
            for one in parsed {
                assert!(text.get(one.place.clone()).is_some(), "{text:?}: {:?}", one.place);
                let _ = one.statement.tag();
                let clauses = match &one.statement {
                    sql::Statement::CreateJob(create) => &create.clauses,
                    sql::Statement::AlterJob(alter) => &alter.clauses,
                    _ => continue,
                };
                if let Err(refused) = define(clauses, None) {
                    assert!(refused.at <= text.len(), "{text:?}: {refused:?}");
                }
            }
        }
        Err(error) => {
            assert!(error.at <= text.len(), "{text:?}: {error:?}");
            assert!(text.is_char_boundary(error.at), "{text:?}: {error:?}");
            assert!(!error.message.is_empty(), "{text:?}");
        }
    }
}

fn corpus() -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for file in ["seeds.sql", "clauses.sql"] {
        texts.extend(examples(file).into_iter().map(|(_, text)| text));
    }
    let errors = std::fs::read_to_string(data("errors.txt")).unwrap();
    texts.extend(errors.lines().map(str::to_owned));
    texts
}

/// Statements one by one, so that a cut or a change costs little.
fn statements() -> Vec<String> {
    let mut statements = Vec::new();
    for text in corpus() {
        match sql::parse(&text) {
            Ok(parsed) => {
                statements.extend(parsed.iter().map(|one| text[one.place.clone()].to_owned()))
            }
            Err(_) => statements.push(text),
        }
    }
    statements
}

/// The replacements of a byte.
const OTHERS: [&str; 13] =
    ["'", "\"", "(", ")", ";", "$", "=", "0", "é", "\u{202e}", "--", "/*", "\0"];

/// Truncates every example at every byte, removes every byte, and replaces every byte.
#[test]
fn every_byte_of_every_example_cut_or_altered() {
    for text in statements() {
        for (at, letter) in text.char_indices() {
            let after = at + letter.len_utf8();
            check(&text[..at]);
            check(&text[at..]);
            check(&format!("{}{}", &text[..at], &text[after..]));
            for i in 0..3 {
                let other = OTHERS[(at + i * 5) % OTHERS.len()];
                check(&format!("{}{other}{}", &text[..at], &text[after..]));
            }
        }
    }
}

/// Pieces of the grammar, and pieces that are similar to it.
fn piece() -> impl Strategy<Value = String> {
    let words: Vec<String> = corpus()
        .iter()
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    prop_oneof![
        8 => prop::sample::select(words),
        2 => prop::sample::select(vec!["'", "''", "\"", "$$", "$1", "$99999999999", "(", ")", ",", ";", "::", ":", ".", "1e400", "0x", "-", "\\", "E'\\", "U&'\\0"]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(|letter| letter.to_string()),
        1 => any::<u64>().prop_map(|number| number.to_string()),
    ]
}

#[test]
fn words_in_any_order() {
    let plan = plan(testbed::this_test!("words_in_any_order"));
    property::check(plan, &prop::collection::vec(piece(), 0..30), |pieces| {
        check(&pieces.join(" "));
        Ok(())
    });
}

#[test]
fn letters_in_any_order() {
    let plan = plan(testbed::this_test!("letters_in_any_order"));
    property::check(plan, &"\\PC{0,200}", |text| {
        check(&text);
        Ok(())
    });
}

/// Parsing takes time and memory in proportion to the length of a statement, for any nesting.
#[test]
fn depth_is_no_danger() {
    let deep = 100_000;
    for text in [
        format!("CREATE JOB a PARTITION BY DYNAMIC {}1 AS NOOP", "(".repeat(deep)),
        format!("CREATE JOB a PARTITION BY DYNAMIC {} 1 AS NOOP", "NOT ".repeat(deep)),
        format!("COPY {}SELECT 1{} TO STDOUT", "(".repeat(deep), ")".repeat(deep)),
        "/*".repeat(deep),
        format!("EXECUTE JOB a WITH {}", "(".repeat(deep)),
        "SELECT 1;".repeat(deep),
        format!("CREATE JOB {} AS NOOP", "a".repeat(deep)),
        format!("CREATE JOB a {} = 1 AS NOOP", "a".repeat(deep)),
    ] {
        check(&text);
    }
    let long = "x".repeat(sql::TEXT_BYTES_MAX + 1);
    assert_eq!(sql::parse(&long).unwrap_err().at, 0);
}
