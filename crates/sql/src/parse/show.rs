//! SHOW statements about jobs.

use super::job::{JOB, VERSION};
use crate::reader::Reader;
use crate::statement::{Spanned, Statement};
use crate::syntax::Result;

pub(super) fn create_job(reader: &mut Reader<'_>) -> Result<Statement> {
    if !reader.eat(&["JOB"]) {
        return Err(reader.unexpected_word("JOB or DAG", ["JOB", "DAG"]));
    }
    let job = reader.name(JOB)?;
    Ok(Statement::ShowCreateJob { job, version: version_after(reader, "VERSION")? })
}

pub(super) fn versions(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.eat(&["FOR"]);
    let job = reader.name(JOB)?;
    let limit = match reader.eat(&["LIMIT"]) {
        true => Some(reader.whole("how many versions")?.value),
        false => None,
    };
    Ok(Statement::ShowVersions { job, limit })
}

/// `SHOW JOB DIFF name [FROM n] [TO n]`.
pub(super) fn diff(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.eat(&["FOR"]);
    let job = reader.name(JOB)?;
    let from = version_after(reader, "FROM")?;
    Ok(Statement::ShowDiff { job, from, to: version_after(reader, "TO")? })
}

/// The version that a word announces, if the word is there.
pub(super) fn version_after(reader: &mut Reader<'_>, word: &str) -> Result<Option<Spanned<u32>>> {
    match reader.eat(&[word]) {
        true => Ok(Some(reader.whole(VERSION)?)),
        false => Ok(None),
    }
}

pub(super) fn jobs(reader: &mut Reader<'_>) -> Result<Statement> {
    let like = match reader.eat(&["LIKE"]) {
        true => Some(reader.text("a pattern in quotes")?.value),
        false => None,
    };
    Ok(Statement::ShowJobs { like })
}

pub(super) fn runs(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.expect(&["FOR"])?;
    let job = reader.name(JOB)?;
    let limit = match reader.eat(&["LIMIT"]) {
        true => Some(reader.whole("how many runs")?.value),
        false => None,
    };
    Ok(Statement::ShowRuns { job, limit })
}
