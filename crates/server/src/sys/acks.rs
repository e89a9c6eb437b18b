//! `sys.job_run_acks`: schedulers that have seen a run which needs a quorum.

use domain::cluster::Class;
use domain::id::JobId;
use engine::{RunFilter, RunView, RunsOf};
use query::{Pages, QueryError, Row, Scan, Value};

use super::Sys;
use super::jobs::{Each, ever_named};
use super::pages::{Made, ROWS, all};
use super::runs::{Reader, Walk};

/// The acknowledgements of the runs that a scan names, of the jobs that it names, or of all jobs
/// that need a quorum: no other run is acknowledged.
pub(super) fn job_run_acks(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let mut reader = Reader::new(sys);
    if let Some(found) = reader.by_identity(scan)? {
        let mut rows = Vec::new();
        for run in found {
            rows.extend(of_run(&mut reader, &run)?);
        }
        return Ok(all(rows));
    }
    let jobs: Vec<JobId> = match ever_named(sys, scan)? {
        Some(jobs) => jobs.iter().map(|job| job.id).collect(),
        None => {
            let (mut each, mut found) = (Each::new(sys), Vec::new());
            while let Some(jobs) = each.next()? {
                let needs = jobs.iter().filter(|job| job.definition.class == Class::QuorumRequired);
                found.extend(needs.map(|job| job.id));
            }
            found
        }
    };
    let walk = |job: JobId| Walk::ids(RunFilter::new(RunsOf::Job(job)), ROWS);
    let mut walks: Vec<Walk> = jobs.into_iter().map(walk).collect();
    Ok(Box::new(Made(move || {
        let Some(walk) = walks.last_mut() else { return Ok(None) };
        let Some(runs) = walk.next(&reader.sys)? else {
            walks.pop();
            return Ok(Some(Vec::new()));
        };
        let mut rows = Vec::new();
        for run in &runs {
            rows.extend(of_run(&mut reader, run)?);
        }
        Ok(Some(rows))
    })))
}

fn of_run(reader: &mut Reader, run: &RunView) -> Result<Vec<Row>, QueryError> {
    let sys = &reader.sys;
    let given = sys.ask_for(sys.app.engine.by(&sys.actor).acknowledgements(run.id))?;
    let given = given.unwrap_or_default();
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let name = reader.name(run)?;
    let row = |it: engine::Acknowledgement| {
        vec![
            Value::Uuid(run.id.0),
            Value::Uuid(run.job.0),
            name.clone(),
            Value::Uuid(it.node.0),
            Value::Int(it.epoch),
            Value::Time(it.at),
        ]
    };
    Ok(given.into_iter().map(row).collect())
}
