//! What clients of PostgreSQL look up about the server, as far as it means something here.

use crate::error::QueryError;
use crate::source::{Pages, Scan, Source};
use crate::table::Table;
use crate::value::Kind;

pub(crate) const TABLES: &[Table] = &[];
pub(crate) const OWNER: i64 = 10;

pub(crate) fn scan(_: &dyn Source, _: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    Ok(Box::new(None))
}
pub(crate) fn type_name(oid: i64) -> &'static str {
    Kind::ALL.into_iter().find(|kind| kind.oid() == oid).map_or("text", Kind::name)
}
pub(crate) fn type_oid(name: &str) -> Option<i64> {
    Kind::ALL.into_iter().find(|kind| kind.name() == name).map(Kind::oid)
}
pub(crate) fn schema_of(_: &dyn Source, _: i64) -> Option<&'static str> {
    None
}
pub(crate) fn comment(_: &dyn Source, _: i64, _: i64) -> Option<&'static str> {
    None
}
pub(crate) fn setting(_: &dyn Source, _: &str) -> Option<String> {
    None
}
pub(crate) fn oid_of(_: &dyn Source, _: &str) -> Option<i64> {
    None
}
pub(crate) fn name_of(_: &dyn Source, oid: i64) -> String {
    oid.to_string()
}
