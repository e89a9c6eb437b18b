//! Syntax errors: each has its position, the expected input, and a suggestion.

use std::fmt::Write;

use sql::{DagStatement, Statement};

use crate::{data, define, define_dag, golden};

#[test]
fn every_mistake_is_told_with_its_place() {
    let mut out = String::new();
    for line in std::fs::read_to_string(data("errors.txt")).unwrap().lines() {
        let (at, message, hint) = match sql::parse(line) {
            Err(error) => (error.at, error.message, error.hint),
            Ok(parsed) => match &parsed[0].statement {
                Statement::CreateJob(create) => match define(&create.clauses, None) {
                    Err(refused) => (refused.at, refused.message, refused.hint),
                    Ok(_) => panic!("{line:?} is no mistake"),
                },
                Statement::Dag(dag) => match &**dag {
                    DagStatement::Create(create) => match define_dag(create) {
                        Err(refused) => (refused.at, refused.message, refused.hint),
                        Ok(_) => panic!("{line:?} is no mistake"),
                    },
                    _ => panic!("{line:?} is no mistake"),
                },
                Statement::Unsupported { verb, hint } => {
                    (verb.at, format!("{} is not supported here", verb.value), Some((*hint).into()))
                }
                statement => panic!("{line:?} is no mistake: {statement:?}"),
            },
        };
        assert!(at <= line.len() && line.is_char_boundary(at), "{line:?}: {at}");
        writeln!(out, "{line}\n{}^ {message}", " ".repeat(at)).unwrap();
        if let Some(hint) = hint {
            writeln!(out, "{}  hint: {hint}", " ".repeat(at)).unwrap();
        }
        out.push('\n');
    }
    golden("errors.golden", &out);
}
