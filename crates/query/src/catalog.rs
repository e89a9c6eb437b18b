//! What clients of PostgreSQL look up about the server: `pg_catalog` and `information_schema`, as
//! far as they mean something here. The rest is there and empty, so that questions about it are
//! answered with nothing instead of an error.

mod rows;
mod tables;

use crate::source::Source;
use crate::table::Table;
use crate::value::Kind;

pub(crate) use rows::scan;
pub(crate) use tables::TABLES;

/// The number of the role that owns everything.
pub(crate) const OWNER: i64 = 10;

/// The number of the first table.
const FIRST_OID: i64 = 16_384;

/// The schemas and their numbers.
const SCHEMAS: &[(&str, i64)] =
    &[("pg_catalog", 11), ("sys", 2_200), ("information_schema", 13_000)];

/// Types besides those of the kinds: name, name for people, number.
const TYPES: &[(&str, &str, i64)] = &[
    ("bool", "boolean", 16),
    ("bytea", "bytea", 17),
    ("char", "\"char\"", 18),
    ("name", "name", 19),
    ("int8", "bigint", 20),
    ("int2", "smallint", 21),
    ("int4", "integer", 23),
    ("text", "text", 25),
    ("oid", "oid", 26),
    ("json", "json", 114),
    ("float4", "real", 700),
    ("float8", "double precision", 701),
    ("_text", "text[]", 1_009),
    ("varchar", "character varying", 1_043),
    ("date", "date", 1_082),
    ("time", "time without time zone", 1_083),
    ("timestamp", "timestamp without time zone", 1_114),
    ("timestamptz", "timestamp with time zone", 1_184),
    ("interval", "interval", 1_186),
    ("numeric", "numeric", 1_700),
    ("uuid", "uuid", 2_950),
    ("jsonb", "jsonb", 3_802),
];

/// Settings that clients ask for.
const SETTINGS: &[(&str, &str)] = &[
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("standard_conforming_strings", "on"),
    ("integer_datetimes", "on"),
    ("datestyle", "ISO, MDY"),
    ("intervalstyle", "postgres"),
    ("timezone", "UTC"),
    ("search_path", "sys"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("default_transaction_isolation", "read committed"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
    ("default_transaction_read_only", "off"),
    ("in_hot_standby", "off"),
    ("is_superuser", "off"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lc_monetary", "C"),
    ("extra_float_digits", "1"),
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("max_connections", "100"),
    ("statement_timeout", "30000"),
];

/// All tables, in the order of their numbers.
fn tables(source: &dyn Source) -> impl Iterator<Item = (i64, &'static Table)> {
    let shown = TABLES.iter().filter(|table| table.arguments == 0);
    source.tables().iter().chain(shown).enumerate().map(|(n, table)| (FIRST_OID + n as i64, table))
}

fn table_of(source: &dyn Source, oid: i64) -> Option<&'static Table> {
    tables(source).find(|(number, _)| *number == oid).map(|(_, table)| table)
}

/// The number of a schema.
fn schema_oid(name: &str) -> i64 {
    SCHEMAS.iter().find(|(known, _)| *known == name).map_or(0, |(_, oid)| *oid)
}

/// The name of a type by its number.
pub(crate) fn type_name(oid: i64) -> &'static str {
    TYPES.iter().find(|(_, _, number)| *number == oid).map_or("???", |(_, name, _)| *name)
}

/// The number of a type by one of its names.
pub(crate) fn type_oid(name: &str) -> Option<i64> {
    let name = name.trim().trim_start_matches("pg_catalog.").trim_matches('"').to_lowercase();
    TYPES.iter().find(|(short, long, _)| *short == name || *long == name).map(|(_, _, oid)| *oid)
}

/// The schema of a table by its number.
pub(crate) fn schema_of(source: &dyn Source, oid: i64) -> Option<&'static str> {
    table_of(source, oid).map(|table| table.schema)
}

/// What a table holds, or one of its columns says, counted from one.
pub(crate) fn comment(source: &dyn Source, oid: i64, column: i64) -> Option<&'static str> {
    let table = table_of(source, oid)?;
    if column == 0 {
        return Some(table.comment).filter(|text| !text.is_empty());
    }
    let field = table.fields.get(usize::try_from(column - 1).ok()?)?;
    Some(field.comment).filter(|text| !text.is_empty())
}

/// The value of a setting.
pub(crate) fn setting(_: &dyn Source, name: &str) -> Option<String> {
    SETTINGS.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

/// The number of a table by its name, with a schema or without.
pub(crate) fn oid_of(source: &dyn Source, name: &str) -> Option<i64> {
    let name = name.replace('"', "").to_lowercase();
    let (schema, name) = match name.split_once('.') {
        Some((schema, name)) => (Some(schema), name),
        None => (None, name.as_str()),
    };
    let visible = |table: &Table| match schema {
        Some(schema) => table.schema == schema,
        None => table.schema != "information_schema",
    };
    tables(source).find(|(_, table)| table.name == name && visible(table)).map(|(oid, _)| oid)
}

/// The name of a table by its number, as it must be written.
pub(crate) fn name_of(source: &dyn Source, oid: i64) -> String {
    match table_of(source, oid) {
        Some(table) if table.schema == "information_schema" => table.inner_name(),
        Some(table) => table.name.to_owned(),
        None if oid == 0 => "-".to_owned(),
        None => oid.to_string(),
    }
}

/// The number of the type of a kind.
fn kind_oid(kind: Kind) -> i64 {
    kind.oid()
}
