use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::decide::plan::tick;
use crate::id::{JobId, ObjectId, TenantId, UserId};
use crate::job::{Job, JobState};
use crate::shard::ShardBody;

fn shards(count: u128) -> Vec<Shard> {
    let shard = |n: u128| Shard {
        id: ObjectId(Uuid::from_u128(n)),
        tenant: TenantId::DEFAULT,
        name: format!("shard_{n:03}"),
        body: ShardBody::default(),
    };
    (1..=count).map(shard).collect()
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// The names of the shards, or the error.
fn chosen(rule: &Partition, values: Value) -> String {
    match rule.select(&shards(4), &map(values)) {
        Ok(shards) => shards.iter().map(|shard| shard.name.as_str()).collect::<Vec<_>>().join(" "),
        Err(error) => error.to_string(),
    }
}

#[test]
fn rules_name_shards() {
    let single = |shard: &str| Partition::SingleShard { shard: shard.into() };
    let set = |shards: &[&str]| Partition::ShardSet {
        shards: shards.iter().map(|shard| (*shard).to_owned()).collect(),
    };
    let two = Uuid::from_u128(2).to_string();
    for (rule, expected) in [
        (Partition::AllShards, "shard_001 shard_002 shard_003 shard_004"),
        (single("shard_003"), "shard_003"),
        (single(&two), "shard_002"),
        (single("shard_009"), "there is no shard \"shard_009\""),
        (set(&["shard_004", &two, "shard_002"]), "shard_004 shard_002"),
        (set(&["shard_001", "nowhere"]), "there is no shard \"nowhere\""),
    ] {
        assert_eq!(chosen(&rule, json!({})), expected);
        assert_eq!(rule.check(), Ok(()));
    }
    let none = Partition::AllShards.select(&[], &Map::new());
    assert!(none.unwrap_err().to_string().starts_with("there are no shards"));
    assert!(set(&[]).check().is_err() && single("").check().is_err());
}

#[test]
fn expressions_choose_by_the_values_of_the_run() {
    let values = json!({"id": 42, "name": "Eve", "big": i64::MAX, "none": null, "region": "eu"});
    for (expression, expected) in [
        ("id % 4", "shard_003"),
        ("MOD(:id, 4)", "shard_003"),
        ("'shard_' || '00' || (id - 40)", "shard_002"),
        ("CASE WHEN region = 'eu' THEN 'shard_001' ELSE 'shard_002' END", "shard_001"),
        ("CASE WHEN region <> 'eu' OR id > 100 THEN 0 WHEN NOT id < 42 THEN 3 END", "shard_004"),
        ("COALESCE(nowhere, none, 1)", "shard_002"),
        ("CASE WHEN none IS NULL AND id IS NOT NULL THEN 2 ELSE 0 END", "shard_003"),
        ("LENGTH(name) - 1 * 2", "shard_002"),
        ("- -1", "shard_002"),
        ("SUBSTR('xshard_004', 2)", "shard_004"),
        ("SUBSTR('shard_004', -9223372036854775807 - 1)", "shard_004"),
        ("LEFT('shard_001 and more', 9)", "shard_001"),
        ("CONCAT('shard_00', RIGHT('abc3', 1))", "shard_003"),
        ("LOWER('SHARD_001')", "shard_001"),
        ("SHARD_COUNT() - 1", "shard_004"),
        ("'it''s'", "it says \"it's\", and there is no such shard"),
        ("id", "it says 42; the places of the shards are 0 to 3"),
        ("id / 0", "42 is divided by zero"),
        ("big + 1", "a number is too large"),
        ("name * 2", "\"Eve\" is not a whole number"),
        ("customer", "the run has no parameter \"customer\""),
        ("id = 42", "the result TRUE is not the name, the id or the position of a shard"),
        ("none || 'a'", "the result NULL is not the name, the id or the position of a shard"),
        ("id < 'a'", "42 and \"a\" cannot be compared"),
    ] {
        let rule = Partition::Dynamic { expression: expression.into() };
        let chosen = chosen(&rule, values.clone());
        let chosen = chosen.strip_prefix("the expression of PARTITION BY: ").unwrap_or(&chosen);
        assert_eq!(chosen, expected, "{expression}");
    }
}

#[test]
fn what_is_no_expression_is_refused_with_its_place() {
    let nested = |deep: usize| format!("{}1{}", "(".repeat(deep), ")".repeat(deep));
    for (expression, expected) in [
        ("", "at character 1: the end stands where a value, a parameter or a function is expected"),
        ("id %", "at character 5: the end stands where"),
        ("id id", "at character 4: id stands where an operator or the end is expected"),
        ("(1", "at character 3: the end stands where ) is expected"),
        ("'text", "at character 1: the text has no end"),
        ("pg_sleep(10)", "at character 1: there is no function pg_sleep; there are SHARD_KEY"),
        ("1 + MOD(1)", "at character 5: MOD takes 2 arguments, not 1"),
        ("1.x", "at character 1: 1.x is no number"),
        ("99999999999999999999", "at character 1: 99999999999999999999 is no whole number"),
        ("id; DROP", "at character 3: ';' has no meaning here"),
        ("CASE 1 END", "at character 6: 1 stands where WHEN is expected"),
        (&nested(33), "at character 34: it is nested deeper than 32"),
        (&"1".repeat(1_001), "at character 1: it is longer than 1000 bytes"),
    ] {
        let error = expression.parse::<Expression>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{expression}: {error}");
    }
    assert!(nested(30).parse::<Expression>().is_ok());
    assert!("NOT ".repeat(100).parse::<Expression>().is_err());
}

#[test]
fn texts_cannot_grow_without_end() {
    let doubled = (0..14).fold("name".to_owned(), |inner, _| format!("CONCAT({inner},name)"));
    let long = map(json!({"name": "n".repeat(5_000)}));
    let rule = Partition::Dynamic { expression: doubled };
    let error = rule.select(&shards(1), &long).unwrap_err().to_string();
    assert!(error.ends_with("a text is longer than 10000 bytes"), "{error}");
}

#[test]
fn a_key_stays_on_its_shard_and_moves_only_to_a_new_one() {
    let rule = Partition::Dynamic { expression: "SHARD_KEY(customer_id)".into() };
    let (four, five) = (shards(4), shards(5));
    let shard = |shards: &[Shard], key: Value| {
        rule.select(shards, &map(json!({"customer_id": key}))).unwrap()[0].name.clone()
    };
    let mut moved = 0;
    for key in 0..1_000 {
        let before = shard(&four, json!(key));
        assert_eq!(before, shard(&four, json!(key.to_string())), "a number is its text");
        let after = shard(&five, json!(key));
        if before != after {
            assert_eq!(after, "shard_005");
            moved += 1;
        }
    }
    assert!((130..280).contains(&moved), "{moved} of 1,000 keys moved");
}

fn job(definition: Definition) -> Job {
    Job {
        id: JobId(Uuid::from_u128(9)),
        tenant: TenantId::DEFAULT,
        owner: UserId::ADMIN,
        name: "job".into(),
        version: 1,
        state: JobState::Enabled,
        definition,
        next_run: None,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn a_run_becomes_a_part_for_each_row_and_shard() {
    let rows = [map(json!({"customer_id": 1})), map(json!({"customer_id": 2, "day": "tue"}))];
    let defaults = BTreeMap::from([("day".to_owned(), json!("mon"))]);
    let from = Some(Rows { sql: "SELECT 1".into(), database: None });
    let parameters = Parameters { values: defaults, from };
    let both = Definition {
        partition: Some(Partition::AllShards),
        parameters: parameters.clone(),
        ..Definition::default()
    };
    let job = job(both);
    let run = tick(&job, Timestamp::UNIX_EPOCH, Origin::Schedule, 0);
    assert_eq!(run.parameters.as_deref(), Some(r#"{"day":"mon"}"#));
    let now = Timestamp::from_second(60).unwrap();
    let parts = split(&job.definition, &run, Some(&rows), &shards(3), now).unwrap();
    assert_eq!(parts.len(), 6);
    let ids: std::collections::BTreeSet<RunId> = parts.iter().map(|part| part.id).collect();
    assert_eq!(ids.len(), 6, "each part has an identity");
    assert!(ids.iter().all(|id| id.is_part()) && !run.id.is_part());
    assert_eq!(parts, split(&job.definition, &run, Some(&rows), &shards(3), now).unwrap());
    let last = &parts[5];
    assert_eq!(last.parameters.as_deref(), Some(r#"{"customer_id":2,"day":"tue"}"#));
    assert_eq!(last.shard, Uuid::from_u128(3).to_string());
    assert_eq!((last.origin, last.due_at), (Origin::Part, now));
    assert!(!last.place.is_anywhere());

    let rows_only = Definition { partition: None, parameters, ..Definition::default() };
    let parts = split(&rows_only, &run, Some(&rows), &[], now).unwrap();
    assert_eq!(parts.len(), 2);
    assert!(parts.iter().all(|part| part.shard.is_empty() && part.place.is_anywhere()));
    assert_eq!(split(&rows_only, &run, Some(&[]), &[], now), Ok(Vec::new()));
}

#[test]
fn the_run_ends_as_its_parts_did() {
    let ended = |outcomes: &[Option<Outcome>]| -> Vec<Part> {
        let part = |(n, outcome): (usize, &Option<Outcome>)| Part {
            parent: RunId(Uuid::nil()),
            run: RunId(Uuid::from_u128(n as u128)),
            shard: Uuid::from_u128(n as u128 + 1).to_string(),
            outcome: *outcome,
        };
        outcomes.iter().enumerate().map(part).collect()
    };
    let (done, failed, late) =
        (Some(Outcome::Completed), Some(Outcome::Failed), Some(Outcome::Timeout));
    let cancelled = Some(Outcome::Cancelled);
    for (outcomes, expected) in [
        (vec![done, None], None),
        (vec![failed, None], None),
        (vec![done, done], Some("COMPLETED 2 of 2 shards done")),
        (
            vec![done, failed, late],
            Some("FAILED 1 of 3 shards done; shard_002 FAILED, shard_003 TIMEOUT"),
        ),
        (vec![late], Some("TIMEOUT 0 of 1 shards done; shard_001 TIMEOUT")),
        (
            vec![failed, cancelled],
            Some("CANCELLED 0 of 2 shards done; shard_001 FAILED, shard_002 CANCELLED"),
        ),
    ] {
        let answer = outcome_of(&ended(&outcomes), &shards(3)).map(|(outcome, reason, said)| {
            format!("{outcome} {}", reason.map_or(said, |reason| reason.text))
        });
        assert_eq!(answer.as_deref(), expected);
    }
}

#[test]
fn values_of_the_run_come_before_those_of_the_job() {
    let values = BTreeMap::from([("a".to_owned(), json!(1)), ("b".to_owned(), json!(2))]);
    let parameters = Parameters { values, from: None };
    assert_eq!(parameters.with(None).unwrap(), r#"{"a":1,"b":2}"#);
    assert_eq!(parameters.with(Some(r#"{"b":3}"#.into())).unwrap(), r#"{"a":1,"b":3}"#);
    assert_eq!(Parameters::default().with(None), None);
    for (name, good) in [("customer_id", true), ("1st", false), ("a b", false), ("", false)] {
        let values = BTreeMap::from([(name.to_owned(), json!(1))]);
        assert_eq!(Parameters { values, from: None }.check().is_ok(), good, "{name}");
    }
}
