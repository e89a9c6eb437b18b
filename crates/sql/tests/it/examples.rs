//! Examples: the text, the parsed statement, and the printed job.

use std::fmt::Write;

use domain::job::{Definition, JobState};
use sql::{Clauses, DagStatement, Statement};

use crate::dags::print_dag;
use crate::{define, define_dag, examples, golden, name_of};

fn printed(clauses: &Clauses, name: &str, base: Option<&Definition>) -> String {
    match define(clauses, base) {
        Ok(defined) => {
            let state = defined.state.unwrap_or(JobState::Enabled);
            sql::create_job(name, state, &defined.definition, &name_of, None)
        }
        Err(refused) => format!("refused at {}: {refused}", refused.at),
    }
}

fn shown(file: &str) -> String {
    let mut out = String::new();
    for (title, text) in examples(file) {
        writeln!(out, "@ {title}").unwrap();
        let parsed = match sql::parse(&text) {
            Ok(parsed) => parsed,
            Err(error) => {
                writeln!(out, "{text}\n  error at {}: {error}\n", error.at).unwrap();
                continue;
            }
        };
        for one in parsed {
            writeln!(out, "{}", &text[one.place.clone()]).unwrap();
            match &one.statement {
                Statement::CreateJob(create) => {
                    writeln!(out, "  {:?}", create.if_present).unwrap();
                    for (clause, _) in create.clauses.iter() {
                        let clause = format!("{clause:?}").replace('\n', "\n    ");
                        writeln!(out, "  {clause}").unwrap();
                    }
                    let job = printed(&create.clauses, &create.name.value, None);
                    writeln!(out, "=>\n{job}\n").unwrap();
                }
                Statement::AlterJob(alter) => {
                    let base = Definition {
                        when: domain::job::When::Cron {
                            expression: "0 2 * * *".into(),
                            zone: "Europe/Berlin".into(),
                            dst: Default::default(),
                        },
                        ..Definition::default()
                    };
                    let job = printed(&alter.clauses, &alter.name.value, Some(&base));
                    writeln!(out, "  rename {:?}\n=>\n{job}\n", alter.rename).unwrap();
                }
                Statement::Dag(dag) if matches!(&**dag, DagStatement::Create(_)) => {
                    let DagStatement::Create(create) = &**dag else { continue };
                    let printed = match define_dag(create) {
                        Ok(defined) => print_dag(&create.name.value, &defined),
                        Err(refused) => format!("refused at {}: {refused}", refused.at),
                    };
                    writeln!(out, "  {:?}\n=>\n{printed}\n", create.if_present).unwrap();
                }
                statement => {
                    writeln!(out, "=> {}\n   {}\n", statement.tag(), format_args!("{statement:?}"))
                        .unwrap()
                }
            }
        }
    }
    out
}

/// S0.65 to S0.152 and S1.109 to S1.112.
#[test]
fn the_examples_of_the_source_documents() {
    golden("seeds.golden", &shown("seeds.sql"));
}

#[test]
fn every_clause_and_every_statement() {
    golden("clauses.golden", &shown("clauses.sql"));
}

/// A statement without TIMEOUT gets the default of its action, and an explicit one stays.
#[test]
fn timeout_defaults_to_that_of_the_action() {
    let http = "HTTP 'POST http://127.0.0.1/'";
    let clauses_of = |text: &str| match sql::parse(text).unwrap().remove(0).statement {
        Statement::CreateJob(create) => create.clauses,
        Statement::AlterJob(alter) => alter.clauses,
        other => panic!("{other:?}"),
    };
    for (create, alter, created, altered) in [
        ("AS NOOP", "SET PRIORITY = 1", "1h", "1h"),
        ("AS HTTP", "SET PRIORITY = 1", "5m", "5m"),
        ("AS HTTP", "SET AS NOOP", "5m", "1h"),
        ("AS NOOP", "SET AS HTTP", "1h", "5m"),
        ("TIMEOUT = 7 MINUTES AS HTTP", "SET AS NOOP", "7m", "7m"),
        ("TIMEOUT = 7 MINUTES AS NOOP", "SET AS HTTP", "7m", "7m"),
        ("AS HTTP", "SET TIMEOUT = 1 HOUR", "5m", "1h"),
        ("AS NOOP", "SET TIMEOUT = 2 HOURS, AS HTTP", "1h", "2h"),
    ] {
        let create = create.replace("HTTP", http);
        let alter = alter.replace("HTTP", http);
        let job = define(&clauses_of(&format!("CREATE JOB j {create}")), None).unwrap().definition;
        assert_eq!(job.timeout, domain::schedule::parse_duration(created).unwrap(), "{create}");
        let changed = define(&clauses_of(&format!("ALTER JOB j {alter}")), Some(&job)).unwrap();
        let expected = domain::schedule::parse_duration(altered).unwrap();
        assert_eq!(changed.definition.timeout, expected, "{create}, then {alter}");
    }
}

/// Every clause with a syntax of its own and every first word of a statement has an example.
#[test]
fn nothing_is_without_an_example() {
    let text: String = examples("clauses.sql").into_iter().map(|(_, text)| text + "\n").collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for rule in sql::RULES.iter().filter(|rule| rule.has_own_syntax()) {
        assert!(text.contains(&rule.name()), "no example of {}", rule.name());
    }
    for clause in sql::DAG_CLAUSES.iter().chain(sql::STEP_CLAUSES) {
        assert!(text.contains(clause), "no example of {clause}");
    }
    for verb in sql::VERBS {
        assert!(text.contains(verb), "no example of {verb}");
    }
}

/// A job that is parsed, printed and parsed again is the same.
#[test]
fn printed_examples_are_read_back() {
    for file in ["seeds.sql", "clauses.sql"] {
        for (_, text) in examples(file) {
            for one in sql::parse(&text).unwrap_or_default() {
                let Statement::CreateJob(create) = one.statement else { continue };
                let Ok(defined) = define(&create.clauses, None) else { continue };
                let state = defined.state.unwrap_or(JobState::Enabled);
                let name = &create.name.value;
                let text = sql::create_job(name, state, &defined.definition, &name_of, None);
                let again = sql::parse(&text).unwrap();
                let [sql::Parsed { statement: Statement::CreateJob(again), .. }] = &again[..]
                else {
                    panic!("{text}");
                };
                assert_eq!(&again.name.value, name);
                let defined_again = define(&again.clauses, None).unwrap();
                assert_eq!(defined_again.definition, defined.definition, "{text}");
                assert_eq!(defined_again.state.unwrap_or(JobState::Enabled), state);
                // Printing is idempotent: the canonical text prints as itself.
                let printed =
                    sql::create_job(name, state, &defined_again.definition, &name_of, None);
                assert_eq!(printed, text);
            }
        }
    }
}
