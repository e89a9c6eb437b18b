//! What can be shown of jobs without a SELECT.

use super::job::JOB;
use crate::reader::Reader;
use crate::statement::Statement;
use crate::syntax::Result;

pub(super) fn create_job(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.expect(&["JOB"])?;
    Ok(Statement::ShowCreateJob(reader.name(JOB)?))
}

pub(super) fn jobs(reader: &mut Reader<'_>) -> Result<Statement> {
    let like = match reader.eat(&["LIKE"]) {
        true => Some(reader.text("a pattern in quotes")?.value),
        false => None,
    };
    Ok(Statement::ShowJobs { like })
}

pub(super) fn runs(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.expect(&["RUNS"])?;
    reader.expect(&["FOR"])?;
    let job = reader.name(JOB)?;
    let limit = match reader.eat(&["LIMIT"]) {
        true => Some(reader.whole("how many runs")?.value),
        false => None,
    };
    Ok(Statement::ShowRuns { job, limit })
}
