//! The rows of the catalogs.

use std::sync::Arc;

use jiff::Timestamp;

use super::{
    KEYWORDS, OWNER, PgType, READS_ARRAYS, SCHEMAS, SETTINGS, TIME_SERIES, TYPES, kind_oid,
    schema_oid, setting, tables,
};
use crate::error::{QueryError, State};
use crate::functions::array::items;
use crate::functions::interval::{self, Interval};
use crate::source::{Pages, Scan, Source, Used};
use crate::table::Table;
use crate::value::{Kind, Row, Value};

/// The maximum length of a series.
const SERIES_MAX: i64 = 1_000_000;

/// The rows of a page of a series.
const SERIES_PAGE: i64 = 1_000;

/// A longer list is refused: its rows take many times its length.
const LIST_BYTES_MAX: usize = 256 << 10;

/// The first oid of objects from tables of the source.
const FIRST_USER: i64 = 20_000;

/// A row with some values by name; the others are zero, false or null.
fn row(table: &Table, values: &[(&str, Value)]) -> Row {
    let value = |name: &str| values.iter().find(|(known, _)| *known == name);
    let fields = table.fields.iter().map(|field| match (value(field.name), field.kind) {
        (Some((_, value)), _) => value.clone(),
        (None, Kind::Bool) => Value::Bool(false),
        (None, Kind::Int) => Value::Int(0),
        (None, _) => Value::Null,
    });
    fields.collect()
}

fn text(text: &str) -> Value {
    Value::text(text)
}

/// Scans a catalog table.
pub(crate) fn scan(source: &dyn Source, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let make = |values: &[(&str, Value)]| row(scan.table, values);
    let rows: Vec<Row> = match (scan.table.schema, scan.table.name) {
        (_, "generate_series") => return Ok(Box::new(Series::read(scan)?)),
        (_, "unnest") => match scan.values("list").and_then(<[Value]>::first) {
            Some(Value::Text(list)) if list.len() > LIST_BYTES_MAX => {
                let text = format!("unnest takes a list of at most {LIST_BYTES_MAX} bytes");
                return Err(QueryError::new(State::TooMuch, text));
            }
            Some(Value::Text(list)) => items(list)
                .into_iter()
                .zip(1..)
                .map(|(item, n)| {
                    let item = item.map_or(Value::Null, Value::text);
                    vec![item, Value::Text(list.clone()), Value::Int(n)]
                })
                .collect(),
            _ => Vec::new(),
        },
        (_, "generate_subscripts") => {
            let list = scan.values("list").and_then(<[Value]>::first);
            let dimension = scan.values("dimension").and_then(<[Value]>::first);
            match (list, dimension) {
                // Arrays have one dimension here.
                (Some(Value::Text(list)), Some(Value::Int(1))) => (1..)
                    .take(items(list).len())
                    .map(|n| {
                        let n = Value::Int(n);
                        vec![n.clone(), Value::Text(list.clone()), Value::Int(1), n]
                    })
                    .collect(),
                _ => Vec::new(),
            }
        }
        (_, TIME_SERIES) => return Ok(Box::new(TimeSeries::read(scan)?)),
        (_, "pg_namespace") => SCHEMAS
            .iter()
            .map(|(name, oid)| {
                make(&[
                    ("oid", Value::Int(*oid)),
                    ("nspname", text(name)),
                    ("nspowner", Value::Int(OWNER)),
                ])
            })
            .collect(),
        (_, "pg_class") => {
            tables(source).map(|(oid, table)| class(scan.table, oid, table)).collect()
        }
        (_, "pg_attribute") => {
            tables(source).flat_map(|(oid, table)| attributes(scan.table, oid, table)).collect()
        }
        (_, "pg_type") => types(scan.table),
        (_, "pg_get_keywords") => KEYWORDS
            .iter()
            .map(|word| {
                make(&[
                    ("word", text(word)),
                    ("catcode", text("U")),
                    ("barelabel", Value::Bool(true)),
                    ("catdesc", text("unreserved")),
                    ("baredesc", text("can be bare label")),
                ])
            })
            .collect(),
        (_, "pg_database") => databases(source)
            .iter()
            .enumerate()
            .map(|(n, name)| {
                make(&[
                    ("oid", Value::Int(FIRST_USER + n as i64)),
                    ("datname", text(name)),
                    ("datdba", Value::Int(OWNER)),
                    ("encoding", Value::Int(6)),
                    ("datlocprovider", text("c")),
                    ("datallowconn", Value::Bool(true)),
                    ("datconnlimit", Value::Int(-1)),
                    ("datcollate", text("C")),
                    ("datctype", text("C")),
                ])
            })
            .collect(),
        (_, "pg_roles" | "pg_authid") => roles(source)
            .iter()
            .map(|(oid, name)| {
                make(&[
                    ("oid", Value::Int(*oid)),
                    ("rolname", text(name)),
                    ("rolinherit", Value::Bool(true)),
                    ("rolcanlogin", Value::Bool(*oid != OWNER)),
                    ("rolsuper", Value::Bool(*oid == OWNER)),
                    ("rolconnlimit", Value::Int(-1)),
                    ("rolpassword", text("********")),
                ])
            })
            .collect(),
        (_, "pg_user") => roles(source)
            .iter()
            .filter(|(oid, _)| *oid != OWNER)
            .map(|(oid, name)| {
                make(&[
                    ("usename", text(name)),
                    ("usesysid", Value::Int(*oid)),
                    ("passwd", text("********")),
                ])
            })
            .collect(),
        (_, "pg_description") => {
            let class = super::oid_of(source, "pg_catalog.pg_class").unwrap_or_default();
            tables(source)
                .flat_map(|(oid, table)| comments(scan.table, class, oid, table))
                .collect()
        }
        (_, "pg_settings") => SETTINGS
            .iter()
            .map(|(name, _)| {
                let value = Value::text(setting(source, name).unwrap_or_default());
                make(&[
                    ("name", text(name)),
                    ("setting", value.clone()),
                    ("category", text("Punctual")),
                    ("short_desc", text("")),
                    ("context", text("internal")),
                    ("vartype", text("string")),
                    ("source", text("default")),
                    ("boot_val", value.clone()),
                    ("reset_val", value),
                ])
            })
            .collect(),
        (_, "pg_tables") => tables(source)
            .map(|(_, table)| {
                make(&[
                    ("schemaname", text(table.schema)),
                    ("tablename", text(table.name)),
                    ("tableowner", text("punctual")),
                ])
            })
            .collect(),
        (_, "pg_tablespace") => vec![make(&[
            ("oid", Value::Int(1_663)),
            ("spcname", text("pg_default")),
            ("spcowner", Value::Int(OWNER)),
        ])],
        (_, "pg_am") => {
            vec![make(&[
                ("oid", Value::Int(2)),
                ("amname", text("virtual")),
                ("amtype", text("t")),
            ])]
        }
        (_, "pg_stat_activity") => {
            let session = source.session();
            let now = Value::Time(source.now());
            vec![make(&[
                ("datname", text(&session.database)),
                ("pid", Value::Int(session.backend.into())),
                ("usename", text(&session.user)),
                ("application_name", text("")),
                ("query_start", now),
                ("state", text("active")),
                ("backend_type", text("client backend")),
            ])]
        }
        ("information_schema", name) => schema_rows(source, scan.table, name),
        _ => Vec::new(),
    };
    Ok(Box::new(Some(rows)))
}

fn schema_rows(source: &dyn Source, of: &Table, name: &str) -> Vec<Row> {
    let database = Value::text(source.session().database);
    match name {
        "schemata" => SCHEMAS
            .iter()
            .map(|(name, _)| {
                row(
                    of,
                    &[
                        ("catalog_name", database.clone()),
                        ("schema_name", text(name)),
                        ("schema_owner", text("punctual")),
                    ],
                )
            })
            .collect(),
        "tables" => tables(source)
            .map(|(_, table)| {
                let kind = if table.schema == "sys" { "BASE TABLE" } else { "VIEW" };
                row(
                    of,
                    &[
                        ("table_catalog", database.clone()),
                        ("table_schema", text(table.schema)),
                        ("table_name", text(table.name)),
                        ("table_type", text(kind)),
                        ("is_insertable_into", text("NO")),
                        ("is_typed", text("NO")),
                    ],
                )
            })
            .collect(),
        "columns" => tables(source)
            .flat_map(|(_, table)| {
                let database = database.clone();
                table.fields.iter().enumerate().map(move |(n, field)| {
                    row(
                        of,
                        &[
                            ("table_catalog", database.clone()),
                            ("table_schema", text(table.schema)),
                            ("table_name", text(table.name)),
                            ("column_name", text(field.name)),
                            ("ordinal_position", Value::Int(n as i64 + 1)),
                            ("is_nullable", text("YES")),
                            ("data_type", text(field.kind.name())),
                            ("character_maximum_length", Value::Null),
                            ("udt_catalog", database.clone()),
                            ("udt_schema", text("pg_catalog")),
                            ("udt_name", text(short_name(field.kind))),
                            ("is_identity", text("NO")),
                            ("is_generated", text("NEVER")),
                            ("is_updatable", text("NO")),
                        ],
                    )
                })
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn short_name(kind: Kind) -> &'static str {
    TYPES.iter().find(|known| known.oid == kind.oid()).map_or("text", |known| known.name)
}

fn class(of: &Table, oid: i64, table: &Table) -> Row {
    let kind = if table.schema == "sys" { "r" } else { "v" };
    row(
        of,
        &[
            ("oid", Value::Int(oid)),
            ("relname", text(table.name)),
            ("relnamespace", Value::Int(schema_oid(table.schema))),
            ("relowner", Value::Int(OWNER)),
            ("relam", Value::Int(if kind == "r" { 2 } else { 0 })),
            ("reltuples", Value::Int(-1)),
            ("relpersistence", text("p")),
            ("relkind", text(kind)),
            ("relnatts", Value::Int(table.fields.len() as i64)),
            ("relispopulated", Value::Bool(true)),
            ("relreplident", text("n")),
            ("relacl", text("{=r/punctual}")),
        ],
    )
}

fn attributes(of: &Table, oid: i64, table: &Table) -> Vec<Row> {
    let one = |(n, field): (usize, &crate::table::Field)| {
        row(
            of,
            &[
                ("attrelid", Value::Int(oid)),
                ("attname", text(field.name)),
                ("atttypid", Value::Int(kind_oid(field.kind))),
                ("attstattarget", Value::Int(-1)),
                ("attlen", Value::Int(-1)),
                ("attnum", Value::Int(n as i64 + 1)),
                ("atttypmod", Value::Int(-1)),
                ("attalign", text("i")),
                ("attstorage", text("p")),
                ("attcompression", text("")),
                ("attidentity", text("")),
                ("attgenerated", text("")),
                ("attislocal", Value::Bool(true)),
            ],
        )
    };
    table.fields.iter().enumerate().map(one).collect()
}

fn comments(of: &Table, class: i64, oid: i64, table: &Table) -> Vec<Row> {
    let one = |number: usize, comment: &str| {
        row(
            of,
            &[
                ("objoid", Value::Int(oid)),
                ("classoid", Value::Int(class)),
                ("objsubid", Value::Int(number as i64)),
                ("description", text(comment)),
            ],
        )
    };
    let own = std::iter::once((0, table.comment));
    let fields = table.fields.iter().enumerate().map(|(n, field)| (n + 1, field.comment));
    own.chain(fields).filter(|(_, text)| !text.is_empty()).map(|(n, text)| one(n, text)).collect()
}

fn types(of: &Table) -> Vec<Row> {
    let category = |name: &str| match name {
        "bool" => "B",
        "int2" | "int4" | "int8" | "float4" | "float8" | "numeric" | "oid" => "N",
        "date" | "time" | "timestamp" | "timestamptz" => "D",
        "interval" => "T",
        "text" | "varchar" | "name" | "char" => "S",
        name if name.starts_with('_') => "A",
        _ => "U",
    };
    let one = |known: &PgType| {
        let element = TYPES.iter().find(|other| other.array == known.oid);
        row(
            of,
            &[
                ("oid", Value::Int(known.oid)),
                ("typname", text(known.name)),
                ("typnamespace", Value::Int(schema_oid("pg_catalog"))),
                ("typowner", Value::Int(OWNER)),
                ("typlen", Value::Int(known.length)),
                ("typtype", text("b")),
                ("typcategory", text(category(known.name))),
                ("typisdefined", Value::Bool(true)),
                ("typdelim", text(",")),
                ("typelem", Value::Int(element.map_or(0, |element| element.oid))),
                ("typarray", Value::Int(known.array)),
                ("typinput", Value::Int(element.map_or(0, |_| READS_ARRAYS.1))),
                ("typalign", text("i")),
                ("typstorage", text("p")),
                ("typtypmod", Value::Int(-1)),
            ],
        )
    };
    TYPES.iter().map(one).collect()
}

/// A column of a table of the source; empty if the user may not see it.
fn column(source: &dyn Source, table: &str, column: &str) -> Result<Vec<String>, QueryError> {
    let Some(table) = source.tables().iter().find(|known| known.name == table) else {
        return Ok(Vec::new());
    };
    let scan = Scan { table, constraints: Vec::new(), order: None, limit: None, used: Used::ALL };
    let field = table.field(column).unwrap_or_default();
    let mut pages = source.scan(&scan)?;
    let mut names = Vec::new();
    while let Some(rows) = pages.next()? {
        names.extend(rows.iter().filter_map(|row| match row.get(field) {
            Some(Value::Text(name)) => Some(name.to_string()),
            _ => None,
        }));
    }
    Ok(names)
}

/// The current user and, if visible, the others.
fn roles(source: &dyn Source) -> Vec<(i64, String)> {
    let own = source.session().user;
    let mut names = column(source, "users", "user_name").unwrap_or_default();
    if !names.contains(&own) {
        names.push(own);
    }
    names.sort();
    let users = names.into_iter().enumerate().map(|(n, name)| (FIRST_USER + n as i64, name));
    std::iter::once((OWNER, "punctual".to_owned())).chain(users).collect()
}

/// The current tenant and, if visible, the others.
fn databases(source: &dyn Source) -> Vec<String> {
    let own = source.session().database;
    let mut names = column(source, "tenants", "tenant_name").unwrap_or_default();
    if !names.contains(&own) {
        names.push(own);
    }
    names.sort();
    names
}

/// A series of numbers, a page at a time.
struct Series {
    start: i64,
    stop: i64,
    step: i64,
    is_step_given: bool,
    /// The length of the series, and the number of rows so far.
    count: i64,
    made: i64,
}

impl Series {
    fn read(scan: &Scan) -> Result<Self, QueryError> {
        let number = |name| match scan.values(name).and_then(<[Value]>::first) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        };
        let is_step_given = scan.values("step").is_some();
        let step = number("step").unwrap_or(1);
        let (Some(start), Some(stop)) = (number("start"), number("stop")) else {
            return Ok(Series { start: 0, stop: 0, step, is_step_given, count: 0, made: 0 });
        };
        if step == 0 {
            return Err(QueryError::new(State::InvalidValue, "the step must not be 0"));
        }
        let count = (stop.saturating_sub(start) / step).saturating_add(1);
        if count > SERIES_MAX {
            let text = format!("generate_series makes at most {SERIES_MAX} rows");
            return Err(QueryError::new(State::TooMuch, text));
        }
        Ok(Series { start, stop, step, is_step_given, count: count.max(0), made: 0 })
    }
}

impl Pages for Series {
    fn next(&mut self) -> Result<Option<Vec<Row>>, QueryError> {
        if self.made >= self.count {
            return Ok(None);
        }
        let end = self.count.min(self.made + SERIES_PAGE);
        let Series { start, stop, step, .. } = *self;
        let third = if self.is_step_given { Value::Int(step) } else { Value::Null };
        let one = |n: i64| {
            let number = Value::Int(start + n * step);
            vec![number, Value::Int(start), Value::Int(stop), third.clone(), Value::Int(n + 1)]
        };
        let rows = (self.made..end).map(one).collect();
        self.made = end;
        Ok(Some(rows))
    }
}

/// A series of times, a page at a time. A step of months or days counts in the calendar of UTC.
struct TimeSeries {
    start: Timestamp,
    stop: Timestamp,
    /// The step, and how it was written.
    step: Interval,
    text: Arc<str>,
    is_falling: bool,
    made: i64,
    next: Option<Timestamp>,
}

impl TimeSeries {
    fn read(scan: &Scan) -> Result<Self, QueryError> {
        let time = |name| match scan.values(name).and_then(<[Value]>::first) {
            Some(Value::Time(at)) => Some(*at),
            _ => None,
        };
        let text = match scan.values("step").and_then(<[Value]>::first) {
            Some(Value::Text(text)) => text.clone(),
            _ => "".into(),
        };
        let (start, stop) = (time("start"), time("stop"));
        let step = interval::read(if text.is_empty() { "0" } else { &text })?;
        let seconds = step.seconds();
        let next = start.zip(stop).filter(|_| !text.is_empty()).map(|(start, _)| start);
        if next.is_some() && seconds == 0.0 {
            return Err(QueryError::new(State::InvalidValue, "step size cannot equal zero"));
        }
        let (start, stop) =
            (start.unwrap_or(Timestamp::UNIX_EPOCH), stop.unwrap_or(Timestamp::UNIX_EPOCH));
        Ok(TimeSeries { start, stop, step, text, is_falling: seconds < 0.0, made: 0, next })
    }

    /// The time after so many steps. Each counts from the start, so that the ends of months do not
    /// drift.
    fn at(&self, steps: i64) -> Option<Timestamp> {
        self.step.times(steps as f64).after(self.start)
    }
}

impl Pages for TimeSeries {
    fn next(&mut self) -> Result<Option<Vec<Row>>, QueryError> {
        let mut rows = Vec::new();
        while let Some(at) = self.next {
            let is_over = if self.is_falling { at < self.stop } else { at > self.stop };
            if is_over {
                self.next = None;
                break;
            }
            if self.made >= SERIES_MAX {
                let text = format!("generate_series makes at most {SERIES_MAX} rows");
                return Err(QueryError::new(State::TooMuch, text));
            }
            self.made += 1;
            rows.push(vec![
                Value::Time(at),
                Value::Time(self.start),
                Value::Time(self.stop),
                Value::Text(self.text.clone()),
                Value::Int(self.made),
            ]);
            self.next = self.at(self.made);
            if rows.len() as i64 == SERIES_PAGE {
                break;
            }
        }
        Ok((!rows.is_empty()).then_some(rows))
    }
}
