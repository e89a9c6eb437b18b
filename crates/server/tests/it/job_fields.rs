//! The table of job fields: every name in it exists, every simple field passes through REST and SQL
//! unchanged, and docs/job-fields.md shows it.

use std::collections::HashMap;
use std::path::Path;

use domain::id::{JobId, TenantId, UserId};
use domain::job::{
    Definition, JOB_FIELDS, Job, JobField, JobState, Policy, PolicyKind, PolicyValue, When,
    policies,
};
use domain::schedule::{Zone, Zones};
use jiff::{SignedDuration, Timestamp};
use server::shape::job::{JobParts, JobSpec};
use utoipa::PartialSchema;

#[expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN=1 writes the file anew")]
fn wants_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// A value that no default is equal to.
fn sample(policy: &Policy) -> PolicyValue {
    match policy.kind {
        PolicyKind::Word(kind) => {
            let default = (policy.get)(&Definition::default());
            let other = kind.words.iter().rev().find(|word| PolicyValue::Word(word) != default);
            PolicyValue::Word(other.unwrap())
        }
        PolicyKind::Duration => PolicyValue::Duration(SignedDuration::from_millis(7_250)),
        PolicyKind::Count(_) => PolicyValue::Count(7),
        PolicyKind::Text => PolicyValue::Text("it's \"a\" text".to_owned()),
        PolicyKind::Flag => PolicyValue::Flag(true),
        PolicyKind::List => PolicyValue::List(vec!["a".to_owned(), "it's b".to_owned()]),
    }
}

/// A definition in which no simple field has its default.
fn unusual() -> Definition {
    let at = Timestamp::from_second(1_900_000_000).unwrap();
    let mut definition = Definition { when: When::At { at }, ..Definition::default() };
    for (field, policy) in policies() {
        assert!((policy.set)(&mut definition, sample(policy)), "{}", field.name);
        assert_eq!((policy.get)(&definition), sample(policy), "{}", field.name);
        assert!(policy.differs(&definition, &Definition::default()), "{}", field.name);
        let wrong = match policy.kind {
            PolicyKind::Flag => PolicyValue::Count(1),
            _ => PolicyValue::Flag(true),
        };
        let before = definition.clone();
        assert!(!(policy.set)(&mut definition, wrong), "{}", field.name);
        assert_eq!(definition, before);
    }
    definition
}

#[test]
fn simple_fields_pass_through_rest_unchanged() {
    for definition in [unusual(), Definition::default()] {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let job = Job {
            id: JobId(uuid::Uuid::nil()),
            tenant: TenantId(uuid::Uuid::nil()),
            owner: UserId::ADMIN,
            name: "j".to_owned(),
            version: 1,
            state: JobState::Enabled,
            definition: definition.clone(),
            next_run: None,
            created_at: now,
            updated_at: now,
        };
        let json = serde_json::to_value(JobSpec::of(&job)).unwrap();
        for (field, policy) in policies() {
            let is_shown = policy.shown(&definition, &Definition::default()).is_some();
            assert_eq!(json.get(field.key()).is_some(), is_shown, "{}", field.name);
        }
        let spec: JobSpec = serde_json::from_value(json).unwrap();
        let read = spec.definition(Vec::new(), now, &Zones::bundled()).unwrap();
        assert_eq!(read, definition);
    }
}

#[test]
fn mistakes_in_simple_fields_are_named() {
    let read = |field: &str, value: &str| {
        let json = format!(r#"{{"name": "j", "payload": {{"type": "NOOP"}}, "{field}": {value}}}"#);
        let mut json = serde_json::Deserializer::from_str(&json);
        let read: Result<JobSpec, _> = serde_path_to_error::deserialize(&mut json);
        read.map(drop).map_err(|error| format!("{}: {}", error.path(), error.inner()))
    };
    for (field, value, problem) in [
        ("overlap", "\"SKIPP\"", "overlap: unknown variant `SKIPP`, expected one of `ALLOW`"),
        ("overlapp", "1", "overlapp: unknown field `overlapp`, expected one of `name`"),
        ("priority", "300", "priority: invalid value: integer `300`, expected u8"),
        ("timeout_seconds", "\"soon\"", "timeout_seconds: \"soon\" is not a duration"),
        ("exactly_once", "null", "exactly_once: invalid type: null"),
        ("name", "\"k\"", ".: duplicate field `name`"),
        ("tags", "[], \"tags\": []", ".: duplicate field `tags`"),
    ] {
        let error = read(field, value).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
    assert_eq!(read("overlap", "null"), Ok(()));
    assert!(read("x", "1").unwrap_err().contains("`overlap`"));
}

#[test]
fn simple_fields_pass_through_sql_unchanged() {
    // The rule belongs to DEPENDS ON.
    let definition = Definition { dependency_rule: Default::default(), ..unusual() };
    let printed = sql::create_job("j", JobState::Enabled, &definition, &|_| String::new(), None);
    let parsed = sql::parse(&printed).unwrap();
    let sql::Statement::CreateJob(create) = &parsed[0].statement else { panic!("{printed}") };
    let (zones, upstream) = (Zones::bundled(), HashMap::new());
    let context = sql::Context { zones: &zones, zone: &Zone::UTC, upstream: &upstream };
    assert_eq!(create.clauses.define(None, &context).unwrap().definition, definition, "{printed}");
}

#[test]
fn every_name_in_the_table_exists() {
    let api = serde_json::to_value(server::describe()).unwrap();
    let keys = &api["components"]["schemas"]["JobSpec"]["properties"];
    let jobs = server::TABLES.iter().find(|table| table.name == "jobs").unwrap();
    let mut seen = std::collections::HashSet::new();
    for field in JOB_FIELDS {
        assert!(seen.insert(field.name), "{} comes twice", field.name);
        for key in field.keys() {
            assert!(keys.get(key).is_some(), "no REST key {key}");
        }
        for column in field.columns() {
            assert!(jobs.fields.iter().any(|it| it.name == column), "no column {column}");
        }
        for clause in field.clauses() {
            assert!(sql::RULES.iter().any(|rule| rule.name() == clause), "no clause {clause}");
        }
    }
    // No key with code of its own is missing in the description.
    let parts = serde_json::to_value(JobParts::schema()).unwrap();
    for key in parts["properties"].as_object().unwrap().keys() {
        assert!(keys.get(key).is_some(), "no field of the table has the key {key}");
    }
}

const HEAD: &str = "# Job fields

Every field of a job, with its names. REST keys are also the keys of [documents](command-line.md) (`punctual apply`, `export`). A field without a name in a column is not set or shown there. The tables of [sql.md](sql.md#clauses) and [sys-tables.md](sys-tables.md) and the description of the REST API (`/openapi.json`) have the details.

| field | meaning | default | SQL | REST | flags | `sys.jobs` |
|---|---|---|---|---|---|---|
";

#[test]
fn the_page_lists_every_field() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/job-fields.md");
    let text = HEAD.to_owned() + &JOB_FIELDS.iter().map(row).collect::<String>();
    if wants_update() {
        std::fs::write(&path, &text).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == text, "run the test with UPDATE_GOLDEN=1 and look at the diff of {path:?}");
}

fn row(field: &JobField) -> String {
    let names = |names: Vec<String>| {
        let quoted: Vec<String> =
            names.iter().map(|name| format!("`{}`", name.replace('|', "\\|"))).collect();
        quoted.join(", ")
    };
    let default = field.policy.as_ref().map(|policy| {
        let value = (policy.get)(&Definition::default());
        match (policy.default_words, value) {
            (Some(words), _) => words.to_owned(),
            (None, PolicyValue::Absent) => String::new(),
            (None, value) => format!("`{value}`"),
        }
    });
    let clauses = match &field.policy {
        Some(_) if !field.has_own_sql => {
            let rule = sql::RULES
                .iter()
                .find(|rule| field.clauses().any(|clause| clause == rule.name()))
                .unwrap();
            vec![format!("{} {}", rule.name(), rule.form)]
        }
        _ => field.clauses().map(str::to_owned).collect(),
    };
    let flags = field.flags().map(|flag| format!("--{flag}")).collect();
    format!(
        "| {} | {}. | {} | {} | {} | {} | {} |\n",
        field.name,
        field.about.replace('\n', " "),
        default.unwrap_or_default(),
        names(clauses),
        names(field.keys().map(str::to_owned).collect()),
        names(flags),
        names(field.columns().map(str::to_owned).collect()),
    )
}
