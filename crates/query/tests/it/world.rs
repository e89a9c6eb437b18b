//! A source with a table in memory.

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use query::{
    Cancel, Engine, Field, Is, Keys, Kind, Limits, Pages, QueryError, Row, Rows, Scan, Session,
    Source, Table, Value,
};
use uuid::Uuid;

const fn field(name: &'static str, kind: Kind, keys: Keys) -> Field {
    Field { name, kind, keys, comment: "A column." }
}

pub const TABLES: &[Table] = &[
    Table {
        schema: "sys",
        name: "jobs",
        comment: "The jobs.",
        fields: &[
            field("job_uuid", Kind::Uuid, Keys::Equal),
            field("job_name", Kind::Text, Keys::Equal),
            field("state", Kind::Text, Keys::None),
            field("next_run_time", Kind::Int, Keys::None),
            field("updated_at", Kind::Time, Keys::None),
            field("paused", Kind::Bool, Keys::None),
            field("action", Kind::Json, Keys::None),
        ],
        orders: &[],
        arguments: 0,
    },
    Table {
        schema: "sys",
        name: "job_runs",
        comment: "The runs.",
        fields: &[
            field("job_run_uuid", Kind::Uuid, Keys::Equal),
            field("job_uuid", Kind::Uuid, Keys::Equal),
            field("started_at", Kind::Int, Keys::Range),
            field("started", Kind::Time, Keys::Range),
            field("completed", Kind::Time, Keys::None),
            field("state", Kind::Text, Keys::None),
            field("duration", Kind::Float, Keys::None),
            field("result_data", Kind::Bytes, Keys::None),
        ],
        orders: &["started_at"],
        arguments: 0,
    },
];

pub const NOW: &str = "2026-11-15T12:00:00Z";

pub fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn time(text: &str) -> Value {
    Value::Time(text.parse().unwrap())
}

fn rows_of(table: &str) -> Vec<Row> {
    let job = |n: u128, name: &str, state: &str, next: Option<i64>, changed: &str, paused| {
        vec![
            Value::Uuid(id(n)),
            Value::text(name),
            Value::text(state),
            next.map_or(Value::Null, Value::Int),
            time(changed),
            Value::Bool(paused),
            Value::text(format!("{{\"type\":\"HTTP\",\"n\":{n}}}")),
        ]
    };
    let run = |n: u128, job: u128, start: Option<&str>, took: i64, state: &str| {
        let began: Option<Timestamp> = start.map(|start| start.parse().unwrap());
        let ended = began.map(|at| at + jiff::SignedDuration::from_secs(took));
        vec![
            Value::Uuid(id(100 + n)),
            Value::Uuid(id(job)),
            began.map_or(Value::Null, |at| Value::Int(at.as_millisecond())),
            began.map_or(Value::Null, Value::Time),
            ended.map_or(Value::Null, Value::Time),
            Value::text(state),
            began.map_or(Value::Null, |_| Value::Float(took as f64)),
            Value::Bytes(Arc::from(&b"\x00\xff"[..])),
        ]
    };
    match table {
        "jobs" => vec![
            job(1, "nightly", "ENABLED", Some(1_794_700_800_000), "2026-11-01T00:00:00Z", false),
            job(2, "Hourly", "PAUSED", None, "2026-11-10T10:30:00.5Z", true),
            job(3, "100%_done", "ENABLED", Some(1_794_740_400_000), "2026-11-15T11:00:00Z", false),
        ],
        _ => vec![
            run(1, 1, Some("2026-11-14T01:00:00Z"), 60, "COMPLETED"),
            run(2, 1, Some("2026-11-15T01:00:00Z"), 90, "FAILED"),
            run(3, 2, Some("2026-11-15T11:00:00Z"), 5, "COMPLETED"),
            run(4, 2, Some("2026-11-15T10:00:00Z"), 3_600, "COMPLETED"),
            run(5, 3, None, 0, "PENDING"),
        ],
    }
}

/// The scans of the source, abbreviated.
#[derive(Clone, Default)]
pub struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

pub struct Fixed {
    pub asked: Asked,
    /// How often the rows are repeated, in pages.
    pub times: usize,
}

struct Again {
    rows: Vec<Row>,
    left: usize,
}

impl Pages for Again {
    fn next(&mut self) -> Result<Option<Vec<Row>>, QueryError> {
        let more = self.left > 0;
        self.left = self.left.saturating_sub(1);
        Ok(more.then(|| self.rows.clone()))
    }
}

fn shown(is: &Is) -> String {
    let one = |value: &Value| match value {
        Value::Uuid(id) => (id.as_u128() as u64).to_string(),
        Value::Text(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Time(at) => at.to_string(),
        other => format!("{other:?}"),
    };
    match is {
        Is::In(values) => format!("in {}", values.iter().map(one).collect::<Vec<_>>().join(",")),
        Is::AtLeast(value) => format!(">= {}", one(value)),
        Is::MoreThan(value) => format!("> {}", one(value)),
        Is::AtMost(value) => format!("<= {}", one(value)),
        Is::LessThan(value) => format!("< {}", one(value)),
        Is::Known => "known".to_owned(),
    }
}

impl Source for Fixed {
    fn tables(&self) -> &'static [Table] {
        TABLES
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
        let mut words = vec![scan.table.name.to_owned()];
        for it in &scan.constraints {
            words.push(format!("{} {}", scan.table.fields[it.field].name, shown(&it.is)));
        }
        if let Some(order) = scan.order {
            let nulls = if order.nulls_first { "first" } else { "last" };
            words.push(format!("by {} nulls {nulls}", scan.table.fields[order.field].name));
        }
        words.extend(scan.limit.map(|limit| format!("limit {limit}")));
        self.asked.0.lock().unwrap().push(words.join("; "));
        let mut rows = rows_of(scan.table.name);
        rows.retain(|row| scan.constraints.iter().all(|it| it.is.meets(&row[it.field])));
        if let Some(order) = scan.order {
            rows.sort_by_key(|row| {
                std::cmp::Reverse(match row[order.field] {
                    Value::Int(number) => number,
                    _ if order.nulls_first => i64::MAX,
                    _ => i64::MIN,
                })
            });
        }
        rows.truncate(scan.limit.unwrap_or(u64::MAX) as usize);
        Ok(Box::new(Again { rows, left: self.times }))
    }

    fn now(&self) -> Timestamp {
        NOW.parse().unwrap()
    }

    fn zone(&self, name: &str) -> Option<TimeZone> {
        TimeZoneDatabase::bundled().get(name).ok()
    }

    fn session(&self) -> Session {
        Session {
            user: "ada".into(),
            database: "acme".into(),
            backend: 42,
            version: "PostgreSQL 15.0 (test)".into(),
        }
    }
}

pub fn engine_of(times: usize, limits: Limits) -> (Engine, Asked) {
    assert!(query::count_memory(), "something used SQLite before");
    let asked = Asked::default();
    let source = Fixed { asked: asked.clone(), times };
    (Engine::new(Arc::new(source), limits).unwrap(), asked)
}

pub fn ask(engine: &Engine, text: &str, parameters: &[Value]) -> Result<Rows, QueryError> {
    let prepared = engine.prepare(text)?;
    engine.run(&prepared, parameters, &Cancel::default())
}
