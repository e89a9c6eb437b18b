//! A job that is printed and parsed back is the same job.

use std::collections::BTreeMap;

use domain::action::{
    Action, AdaptiveInterval, ArtifactAction, BackupAction, ExternalAction, HttpAction,
    ProcedureAction, QueueAction, QueueMetric, SqlAction,
};
use domain::calendar::{CalendarMode, CalendarUse, Shift};
use domain::cluster::Labels;
use domain::dependency::DependencyRule;
use domain::id::JobId;
use domain::job::{
    Definition, Dependency, DependsOn, ErrorFilter, JobState, LostAnswer, LostQuestion, OnLost,
    Policy, PolicyKind, PolicyValue, Retention, RetryPolicy, When, policies,
};
use domain::parameter::ParameterRule;
use domain::partition::{Parameters, Partition, Rows};
use domain::pool::PoolUse;
use domain::queue::KeepCompleted;
use domain::schedule::{DstPolicy, GapRule, OverlapRule};
use jiff::{SignedDuration, Timestamp};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use sql::Statement;
use testbed::property::{self, Plan};
use uuid::Uuid;

use crate::{UPSTREAM, define, name_of};

/// A string with characters that are difficult to quote.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z_]{1,12}",
        1 => "[ -~]{0,20}",
        1 => "\\PC{0,12}",
        1 => select(vec!["it's", "\"", "$$", "--", "/*", ";", "none", "NULL", "\\", "a\nb", "$1", "if", "E'"])
            .prop_map(str::to_owned),
    ]
}

fn name() -> impl Strategy<Value = String> {
    text().prop_filter("a name is not empty", |name| !name.is_empty())
}

fn length() -> impl Strategy<Value = SignedDuration> {
    prop_oneof![
        (0_i64..400_000).prop_map(SignedDuration::from_secs),
        (0_i64..400).prop_map(|days| SignedDuration::from_hours(24 * days)),
        (1_i64..10_000_000_000).prop_map(SignedDuration::from_nanos),
    ]
}

fn instant() -> impl Strategy<Value = Timestamp> {
    prop_oneof![
        (0_i64..4_000_000_000).prop_map(|s| Timestamp::from_second(s).unwrap()),
        (0_i64..4_000_000_000_000_000).prop_map(|us| Timestamp::from_microsecond(us).unwrap()),
    ]
}

fn when() -> impl Strategy<Value = When> {
    let gap = option::of(select(vec![GapRule::Skip, GapRule::ShiftAfter, GapRule::ShiftByOffset]));
    let overlap =
        option::of(select(vec![OverlapRule::First, OverlapRule::Second, OverlapRule::Both]));
    let expression = select(vec!["* * * * *", "*/15 9-17 * * MON-FRI", "0 0 LW 2 *", "@daily"]);
    let zone = select(vec!["UTC", "Europe/Berlin", "America/New_York", "Etc/GMT+5"]);
    let cron = (expression, zone, gap, overlap).prop_map(|(expression, zone, gap, overlap)| {
        let (expression, zone) = (expression.to_owned(), zone.to_owned());
        When::Cron { expression, zone, dst: DstPolicy { gap, overlap } }
    });
    let every = (1_i64..10_000_000, option::of(instant()), option::of(instant())).prop_map(
        |(seconds, starts, ends)| When::Every {
            interval: SignedDuration::from_secs(seconds),
            starts,
            ends,
        },
    );
    prop_oneof![
        Just(When::Manual),
        Just(When::AfterDependencies),
        cron,
        every,
        instant().prop_map(|at| When::At { at }),
    ]
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        Just(serde_json::json!(null)),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        // Numbers that JSON reads back exactly.
        any::<i32>().prop_map(|n| (f64::from(n) / 8.0).into()),
        text().prop_map(Into::into),
        (text(), any::<i32>()).prop_map(|(name, n)| serde_json::json!({ name: [n, null, "x'y"] })),
    ]
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(text(), text(), 0..3)
}

fn action() -> impl Strategy<Value = Action> {
    let list = |what| prop::collection::vec(what, 0..3);
    let sql = (text(), option::of(name()))
        .prop_map(|(sql, database)| Action::Sql(SqlAction { sql, database }));
    let procedure = prop_oneof![
        name(),
        select(vec!["a.b", "\"A b\".\"c\"\"d\"", "Mixed", "a . b", " a", "a."])
            .prop_map(str::to_owned),
    ];
    let procedure = (procedure, prop::collection::vec(json(), 0..4), option::of(name())).prop_map(
        |(procedure, arguments, database)| {
            Action::Procedure(ProcedureAction { procedure, arguments, database })
        },
    );
    let external =
        (text(), list(text().boxed()), map()).prop_map(|(command, arguments, environment)| {
            Action::External(ExternalAction { command, arguments, environment })
        });
    let artifact = (text(), text(), list(text().boxed()), map(), any::<bool>()).prop_map(
        |(artifact_id, entrypoint, arguments, environment, floating)| {
            Action::Artifact(ArtifactAction {
                artifact_id,
                entrypoint,
                arguments,
                environment,
                floating,
                pinned: None,
            })
        },
    );
    let method = select(vec!["GET", "POST", "PATCH"]);
    let endpoint = "https?://[a-z]{1,8}(/[!-~]{0,8})?";
    let statuses = prop::collection::vec(1_u16..600, 0..3);
    let http = (method, endpoint, map(), option::of(json()), statuses).prop_map(
        |(method, endpoint, headers, body, expected_status)| {
            let method = method.to_owned();
            Action::Http(HttpAction { endpoint, method, headers, body, expected_status })
        },
    );
    let backup = (text(), option::of(1_u32..100), any::<bool>(), any::<bool>()).prop_map(
        |(target, keep, outputs, artifacts)| {
            Action::Backup(BackupAction { target, keep, outputs, artifacts })
        },
    );
    let payload = prop_oneof![json(), text().prop_map(Value::String)];
    let queue = (text(), payload, text(), option::of(0_u8..10), any::<bool>()).prop_map(
        |(queue, message, workspace, priority, awaits)| {
            let adaptive = awaits.then_some(AdaptiveInterval {
                metric: QueueMetric::Age,
                target: 2.5,
                min_seconds: 1.0,
                max_seconds: 90.0,
            });
            Action::Queue(QueueAction { queue, message, workspace, priority, awaits, adaptive })
        },
    );
    prop_oneof![Just(Action::Noop), sql, procedure, external, artifact, http, queue, backup]
}

fn filter() -> impl Strategy<Value = ErrorFilter> {
    let codes = prop::collection::vec(any::<i32>(), 0..3);
    let statuses = prop::collection::vec(any::<u16>(), 0..3);
    let states = prop::collection::vec(text(), 0..3);
    (codes, statuses, states).prop_map(|(exit_codes, http_statuses, sqlstates)| ErrorFilter {
        exit_codes,
        http_statuses,
        sqlstates,
    })
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    let number = || (0_u32..5_000).prop_map(|n| f64::from(n) / 7.0);
    (
        1..u32::MAX,
        length(),
        number(),
        length(),
        number(),
        option::of(filter()),
        option::of(filter()),
    )
        .prop_map(
            |(max_attempts, backoff, multiplier, max_backoff, jitter, retry_on, no_retry_on)| {
                RetryPolicy {
                    max_attempts,
                    backoff,
                    multiplier,
                    max_backoff,
                    jitter,
                    retry_on,
                    no_retry_on,
                }
            },
        )
}

fn dependencies() -> impl Strategy<Value = Vec<Dependency>> {
    let on = select(vec![DependsOn::Success, DependsOn::Completion, DependsOn::Failure]);
    let one = (0..UPSTREAM.len() as u128, on)
        .prop_map(|(i, on)| Dependency { job: JobId(Uuid::from_u128(100 + i)), on });
    prop::collection::vec(one, 0..4)
}

fn partition() -> impl Strategy<Value = Partition> {
    let expressions =
        vec!["SHARD_KEY(customer_id)", "id % 16", "CASE WHEN a = 'x' THEN 0 ELSE 1 END"];
    prop_oneof![
        Just(Partition::AllShards),
        name().prop_map(|shard| Partition::SingleShard { shard }),
        prop::collection::vec(text(), 1..4).prop_map(|shards| Partition::ShardSet { shards }),
        select(expressions).prop_map(|it| Partition::Dynamic { expression: it.to_owned() }),
    ]
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let value = json().prop_filter("plain", |value| !value.is_object());
    let values = prop::collection::btree_map("[A-Za-z_][A-Za-z0-9_]{0,8}", value, 0..3);
    let sql = text().prop_filter("a question", |sql| !sql.trim().is_empty());
    let from = (sql, option::of(name())).prop_map(|(sql, database)| Rows { sql, database });
    (values, option::of(from)).prop_map(|(values, from)| Parameters { values, from })
}

fn on_lost() -> impl Strategy<Value = (OnLost, LostQuestion)> {
    let question = (length(), select(LostAnswer::ALL.to_vec()))
        .prop_map(|(timeout, then)| LostQuestion { timeout, then });
    prop_oneof![
        Just((OnLost::Retry, LostQuestion::default())),
        Just((OnLost::Fail, LostQuestion::default())),
        question.prop_map(|question| (OnLost::Ask, question)),
    ]
}

fn pool() -> impl Strategy<Value = PoolUse> {
    (name(), 1..u32::MAX).prop_map(|(name, weight)| PoolUse { name, weight })
}

fn parameter_rules() -> impl Strategy<Value = Vec<ParameterRule>> {
    let rule = |rule: serde_json::Value| serde_json::from_value::<ParameterRule>(rule).unwrap();
    let text = (text(), text()).prop_map(move |(default, description)| {
        rule(serde_json::json!({
            "name": "a", "default": default, "description": description, "pattern": "(?s).*"
        }))
    });
    let number = any::<i64>().prop_map(move |n| {
        rule(serde_json::json!({
            "name": "b", "type": "integer", "required": true, "default": n, "enum": [n], "min": n,
            "max": n
        }))
    });
    let document = json().prop_map(move |value| {
        rule(serde_json::json!({"name": "c", "type": "json", "default": value, "enum": [value]}))
    });
    let others = Just(rule(serde_json::json!({
        "name": "d", "type": "date", "min": "2026-01-01", "max": "2026-12-31"
    })));
    prop::collection::vec(prop_oneof![text, number, document, others], 0..3)
}

prop_compose! {
    fn definition()(
        (when, action, retry) in (when().boxed(), action().boxed(), retry().boxed()),
        ((on_lost, lost_question), depends_on, rule, retention) in (
            on_lost(),
            dependencies(),
            select(DependencyRule::ALL.to_vec()),
            prop::array::uniform3(option::of(any::<u32>())),
        ),
        keep_completed in select(vec![None, Some(KeepCompleted::None), Some(KeepCompleted::Sample(10))]),
        run_on in map().boxed(),
        (partition, parameters) in (option::of(partition()).boxed(), parameters().boxed()),
        calendars in calendars().boxed(),
        (pool, parameter_rules) in (option::of(pool()).boxed(), parameter_rules().boxed()),
        simple in simple(),
    ) -> Definition {
        let [days, failed_days, keep_last] = retention;
        let mut definition = Definition {
            when, action, retry, on_lost, lost_question,
            dependency_rule: if depends_on.is_empty() { DependencyRule::All } else { rule },
            depends_on,
            retention: Retention { days, failed_days, keep_last, keep_completed },
            run_on: Labels(run_on),
            partition, parameters, calendars, pool, parameter_rules,
            ..Definition::default()
        };
        for (policy, value) in simple {
            assert!((policy.set)(&mut definition, value));
        }
        definition
    }
}

/// Values of all fields whose clause follows from the table of job fields.
fn simple() -> impl Strategy<Value = Vec<(&'static Policy, PolicyValue)>> {
    let simple = policies().filter(|(field, _)| !field.has_own_sql);
    simple
        .map(|(_, policy)| policy_value(policy).prop_map(move |value| (policy, value)))
        .collect::<Vec<_>>()
}

fn policy_value(policy: &Policy) -> BoxedStrategy<PolicyValue> {
    let value = match policy.kind {
        PolicyKind::Word(kind) => select(kind.words).prop_map(PolicyValue::Word).boxed(),
        PolicyKind::Duration => length().prop_map(PolicyValue::Duration).boxed(),
        PolicyKind::Count(limit) => (0..=limit).prop_map(PolicyValue::Count).boxed(),
        PolicyKind::Text if policy.noun.is_empty() => text().prop_map(PolicyValue::Text).boxed(),
        PolicyKind::Text => name().prop_map(PolicyValue::Text).boxed(),
        PolicyKind::Flag => any::<bool>().prop_map(PolicyValue::Flag).boxed(),
        PolicyKind::List => prop::collection::vec(text(), 0..3).prop_map(PolicyValue::List).boxed(),
    };
    match policy.is_optional {
        true => prop_oneof![Just(PolicyValue::Absent), value].boxed(),
        false => value,
    }
}

/// Excluded calendars come before included ones, as they are printed.
fn calendars() -> impl Strategy<Value = Vec<CalendarUse>> {
    let shifts = select(vec![Shift::Skip, Shift::Next, Shift::Previous]);
    let one = |mode: CalendarMode| {
        (name(), shifts.clone()).prop_map(move |(name, shift)| CalendarUse {
            name,
            mode,
            shift,
            resolved: None,
        })
    };
    let some = |mode| prop::collection::vec(one(mode), 0..3);
    (some(CalendarMode::Exclude), some(CalendarMode::Include))
        .prop_map(|(excluded, included)| excluded.into_iter().chain(included).collect())
}

#[test]
fn what_is_printed_is_read_back() {
    let test = testbed::this_test!("what_is_printed_is_read_back");
    let plan = Plan { test, seed: 0x5eed_001d, cases: 3_000 };
    let states = select(vec![JobState::Enabled, JobState::Paused, JobState::Disabled]);
    property::check(plan, &(name(), states, definition()), |(name, state, definition)| {
        read_back(&name, state, &definition)
    });
}

fn read_back(name: &str, state: JobState, definition: &Definition) -> Result<(), TestCaseError> {
    let text = sql::create_job(name, state, definition, &name_of, None);
    let parsed = sql::parse(&text);
    prop_assert!(parsed.is_ok(), "{text}\n{parsed:?}");
    let parsed = parsed.unwrap();
    prop_assert_eq!(parsed.len(), 1, "{}", text);
    let Statement::CreateJob(create) = &parsed[0].statement else {
        return Err(TestCaseError::fail(text));
    };
    prop_assert_eq!(&create.name.value, name);
    let defined = define(&create.clauses, None);
    prop_assert!(defined.is_ok(), "{text}\n{defined:?}");
    let defined = defined.unwrap();
    prop_assert_eq!(&defined.definition, definition, "{}", text);
    prop_assert_eq!(defined.state.unwrap_or(JobState::Enabled), state);
    prop_assert_eq!(sql::create_job(name, state, &defined.definition, &name_of, None), text);
    Ok(())
}
