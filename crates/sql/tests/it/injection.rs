//! The value of `$1`, of a name or of a string is never parsed as SQL (RELIABILITY C1).

use domain::job::{Definition, JobState};
use sql::{Literal, Statement};

use crate::{define, name_of};

const EVIL: [&str; 12] = [
    "x'; DROP JOB a; --",
    "x\"; DROP JOB a; --",
    "$$; DROP JOB a; $$",
    "$1",
    "'",
    "\"",
    "\\",
    "\\'",
    "NONE",
    "NULL",
    "\u{202e}evil\u{2066}",
    "a\u{430}", // A Cyrillic a beside a Latin one.
];

fn template(text: &str) -> sql::Template {
    match sql::parse(text).unwrap().remove(0).statement {
        Statement::Template(template) => template,
        statement => panic!("{statement:?}"),
    }
}

#[test]
fn a_value_is_a_value() {
    for evil in EVIL {
        let value = || Literal::Text(evil.to_owned());
        let paused = template("PAUSE JOB $1").bind(&[value()]).unwrap();
        assert!(matches!(&paused, Statement::PauseJob(name) if name.value == evil), "{paused:?}");
        let text = "CREATE JOB a DESCRIPTION = $2 RUN AS $3 AS $1";
        let created = template(text).bind(&[value(), value(), value()]).unwrap();
        let Statement::CreateJob(created) = created else { panic!("{created:?}") };
        let job = define(&created.clauses, None).unwrap().definition;
        assert_eq!(job.description.as_deref(), Some(evil));
        assert_eq!(job.run_as.as_deref(), Some(evil));
        let domain::action::Action::Sql(action) = job.action else { panic!() };
        assert_eq!(action.sql, evil);
    }
}

#[test]
fn values_have_types() {
    let job = |values: &[Literal]| {
        let text = "EXECUTE JOB a WITH (a = $1, b = $2, c = $3, d = $4)";
        template(text).bind(values)
    };
    let number = |text: &str| Literal::Number(text.to_owned());
    let bound = job(&[number("-3"), Literal::Bool(true), Literal::Null, number("2.5")]).unwrap();
    let Statement::ExecuteJob(bound) = bound else { panic!() };
    let values: Vec<_> = bound.parameters.iter().map(|(_, value)| value.json()).collect();
    assert_eq!(serde_json::json!(values), serde_json::json!([-3, true, null, 2.5]));
    let error = job(&[Literal::Null]).unwrap_err();
    assert_eq!(error.message, "no value for parameter $2");
    // A number where a string is expected is refused at its position.
    let error = template("  PAUSE JOB $1").bind(&[number("5")]).unwrap_err();
    assert_eq!(error.at, 12, "{error}");
    let error = template("CREATE JOB a TIMEOUT = $1 AS NOOP").bind(&[Literal::Null]).unwrap_err();
    assert_eq!(error.at, 23, "{error}");
}

#[test]
fn printed_names_and_texts_are_one_statement() {
    for evil in EVIL {
        let definition = Definition {
            description: Some(evil.to_owned()),
            run_as: Some(evil.to_owned()),
            tags: vec![evil.to_owned()],
            ..Definition::default()
        };
        let text = sql::create_job(evil, JobState::Enabled, &definition, &name_of, None);
        let parsed = sql::parse(&text).unwrap();
        assert_eq!(parsed.len(), 1, "{text}");
        let Statement::CreateJob(created) = &parsed[0].statement else { panic!("{text}") };
        assert_eq!(created.name.value, evil);
        assert_eq!(define(&created.clauses, None).unwrap().definition, definition);
    }
}

#[test]
fn a_zero_byte_is_refused() {
    let error = sql::parse("CREATE JOB \"a\0b\" AS NOOP").unwrap_err();
    assert_eq!(error.at, 13);
}

#[test]
fn secrets_and_passwords_are_not_shown() {
    for text in [
        "CREATE SECRET k VALUE 'hunter22'",
        "CREATE USER u PASSWORD 'hunter22'",
        "ALTER USER u PASSWORD 'hunter22'",
        "CREATE SECRET k FOR JOB $1 VALUE 'hunter22'",
    ] {
        let shown = format!("{:?}", sql::parse(text).unwrap());
        assert!(!shown.contains("hunter22"), "{shown}");
    }
}
