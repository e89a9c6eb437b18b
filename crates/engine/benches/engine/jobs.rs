//! Jobs and runs to measure with.

use anyhow::{Result, bail};
use domain::decide::plan::tick;
use domain::id::{RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, Overlap, When};
use domain::run::{NewRun, Origin};
use engine::{NewJob, Node, Settings};
use jiff::Timestamp;
use std::sync::Arc;
use store::{FullStore, SYSTEM};

use crate::present::{now, parts, random};

/// Jobs that one call creates.
const BATCH: u32 = 5_000;

/// A job that runs on request.
pub async fn on_demand<S: FullStore>(store: &Arc<S>, overlap: Overlap) -> Result<Job> {
    let node = Node::new(Arc::clone(store), Settings::default(), parts());
    let definition = Definition { overlap, ..Definition::default() };
    let tenant = TenantId::DEFAULT;
    Ok(node
        .create_job(
            NewJob {
                tenant,
                owner: UserId::ADMIN,
                name: format!("on demand {}", now().as_nanosecond()),
                definition,
                state: JobState::Enabled,
            },
            SYSTEM,
        )
        .await?)
}

/// A number of jobs with the same schedule and the defaults of everything else.
pub async fn scheduled<S: FullStore>(store: &Arc<S>, count: u32, when: &When) -> Result<()> {
    let node = Node::new(Arc::clone(store), Settings::default(), parts());
    for first in (0..count).step_by(BATCH as usize) {
        let job = |i: u32| NewJob {
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: format!("job {i}"),
            definition: Definition { when: when.clone(), ..Definition::default() },
            state: JobState::Enabled,
        };
        let jobs = (first..count.min(first + BATCH)).map(job).collect();
        for created in node.create_jobs(jobs, SYSTEM).await? {
            if let Err(error) = created {
                bail!("a job was refused: {error}");
            }
        }
    }
    Ok(())
}

/// A requested run, due at that time.
pub fn run(job: &Job, at: Timestamp) -> NewRun {
    NewRun { id: RunId::of_request(at, random()), ..tick(job, at, Origin::Manual, 0) }
}
