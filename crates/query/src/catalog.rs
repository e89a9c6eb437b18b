//! The system catalogs that PostgreSQL clients query: `pg_catalog` and `information_schema`, as far
//! as they apply here. Other catalog tables exist and are empty, so that queries of them return no
//! rows instead of an error.

mod rows;
mod tables;

use crate::source::Source;
use crate::table::Table;
use crate::value::Kind;

pub(crate) use rows::scan;
pub(crate) use tables::TABLES;

/// The oid of the role that owns everything.
pub(crate) const OWNER: i64 = 10;

/// The oid of the first table.
const FIRST_OID: i64 = 16_384;

/// The schemas and their oids.
const SCHEMAS: &[(&str, i64)] =
    &[("pg_catalog", 11), ("sys", 2_200), ("information_schema", 13_000)];

/// A type.
struct PgType {
    /// Its name.
    name: &'static str,
    /// Its long name.
    long: &'static str,
    /// Its oid.
    oid: i64,
    /// The size of a value in bytes; -1 if it varies.
    length: i64,
    /// The oid of its array type; 0 for none.
    array: i64,
}

macro_rules! types {
    ($($name:literal $long:literal $oid:literal $length:literal $array:literal;)*) => {
        &[$(PgType {
            name: $name, long: $long, oid: $oid, length: $length, array: $array,
        },)*]
    };
}

/// The types that clients can see.
const TYPES: &[PgType] = types! {
    "bool" "boolean" 16 1 1_000;
    "bytea" "bytea" 17 -1 1_001;
    "char" "\"char\"" 18 1 0;
    "name" "name" 19 64 0;
    "int8" "bigint" 20 8 1_016;
    "int2" "smallint" 21 2 1_005;
    "int4" "integer" 23 4 1_007;
    "text" "text" 25 -1 1_009;
    "oid" "oid" 26 4 0;
    "json" "json" 114 -1 0;
    "float4" "real" 700 4 1_021;
    "float8" "double precision" 701 8 1_022;
    "_bool" "boolean[]" 1_000 -1 0;
    "_bytea" "bytea[]" 1_001 -1 0;
    "_int2" "smallint[]" 1_005 -1 0;
    "_int4" "integer[]" 1_007 -1 0;
    "_text" "text[]" 1_009 -1 0;
    "_varchar" "character varying[]" 1_015 -1 0;
    "_int8" "bigint[]" 1_016 -1 0;
    "_float4" "real[]" 1_021 -1 0;
    "_float8" "double precision[]" 1_022 -1 0;
    "varchar" "character varying" 1_043 -1 1_015;
    "date" "date" 1_082 4 0;
    "time" "time without time zone" 1_083 8 0;
    "timestamp" "timestamp without time zone" 1_114 8 1_115;
    "_timestamp" "timestamp without time zone[]" 1_115 -1 0;
    "timestamptz" "timestamp with time zone" 1_184 8 1_185;
    "_timestamptz" "timestamp with time zone[]" 1_185 -1 0;
    "interval" "interval" 1_186 16 0;
    "_numeric" "numeric[]" 1_231 -1 0;
    "numeric" "numeric" 1_700 -1 1_231;
    "uuid" "uuid" 2_950 16 2_951;
    "_uuid" "uuid[]" 2_951 -1 0;
    "jsonb" "jsonb" 3_802 -1 0;
};

/// Estimated row counts of the tables that are not empty. A join should begin with an empty table.
const SIZES: &[(&str, i64)] = &[
    ("generate_series", 1_000),
    ("_generate_time_series", 1_000),
    ("generate_subscripts", 10),
    ("unnest", 10),
    ("pg_attribute", 1_000),
    ("pg_authid", 10),
    ("pg_class", 100),
    ("pg_database", 1),
    ("pg_description", 500),
    ("pg_get_keywords", 10),
    ("pg_namespace", 3),
    ("pg_am", 1),
    ("pg_roles", 10),
    ("pg_settings", 30),
    ("pg_stat_activity", 1),
    ("pg_tables", 100),
    ("pg_tablespace", 1),
    ("pg_type", 40),
    ("pg_user", 10),
    ("schemata", 3),
    ("tables", 100),
    ("columns", 1_000),
];

/// The estimated row count of a catalog table; none for other tables.
pub(crate) fn size_of(table: &Table) -> Option<i64> {
    let is_ours = matches!(table.schema, "pg_catalog" | "information_schema");
    let size = SIZES.iter().find(|(name, _)| *name == table.name);
    is_ours.then(|| size.map_or(0, |(_, size)| *size))
}

/// The function by which clients recognise arrays, and its oid.
pub(crate) const READS_ARRAYS: (&str, i64) = ("array_in", 750);

/// The name of the series of times, which clients write as `generate_series`.
pub(crate) const TIME_SERIES: &str = "_generate_time_series";

/// The hidden column of functions in FROM that counts their rows from one.
pub(crate) const ORDINALITY: &str = "ordinality";

/// Tables that clients query as functions.
pub(crate) const FUNCTIONS: &[&str] = &["pg_get_keywords"];

/// Keywords of statements that other databases do not have. None is reserved.
const KEYWORDS: &[&str] = &[
    "backfill", "cancel", "execute", "job", "jobs", "pause", "recreate", "resume", "retry", "shard",
];

/// Settings that clients query.
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
    ("default_table_access_method", "heap"),
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

/// All tables, in the order of their oids.
fn tables(source: &dyn Source) -> impl Iterator<Item = (i64, &'static Table)> {
    let is_table = |table: &&Table| table.arguments == 0 && !FUNCTIONS.contains(&table.name);
    let shown = TABLES.iter().filter(is_table);
    source.tables().iter().chain(shown).enumerate().map(|(n, table)| (FIRST_OID + n as i64, table))
}

fn table_of(source: &dyn Source, oid: i64) -> Option<&'static Table> {
    tables(source).find(|(number, _)| *number == oid).map(|(_, table)| table)
}

/// The oid of a schema.
fn schema_oid(name: &str) -> i64 {
    SCHEMAS.iter().find(|(known, _)| *known == name).map_or(0, |(_, oid)| *oid)
}

/// The name of a type by its oid.
pub(crate) fn type_name(oid: i64) -> &'static str {
    TYPES.iter().find(|known| known.oid == oid).map_or("???", |known| known.long)
}

/// The oid of a type by one of its names.
pub(crate) fn type_oid(name: &str) -> Option<i64> {
    let name = name.trim().trim_start_matches("pg_catalog.").trim_matches('"').to_lowercase();
    TYPES.iter().find(|known| known.name == name || known.long == name).map(|known| known.oid)
}

/// The schema of a table by its oid.
pub(crate) fn schema_of(source: &dyn Source, oid: i64) -> Option<&'static str> {
    table_of(source, oid).map(|table| table.schema)
}

/// The comment of a table, or of one of its columns, counted from one.
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

/// The oid of a table by its name, with or without a schema.
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

/// The quoted name of a table by its oid.
pub(crate) fn name_of(source: &dyn Source, oid: i64) -> String {
    match table_of(source, oid) {
        Some(table) if table.schema == "information_schema" => table.inner_name(),
        Some(table) => table.name.to_owned(),
        None if oid == 0 => "-".to_owned(),
        None => oid.to_string(),
    }
}

/// The oid of the type of a kind.
fn kind_oid(kind: Kind) -> i64 {
    kind.oid()
}
