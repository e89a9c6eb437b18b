//! The requests of clients.

use std::future::Future;
use std::sync::Arc;

use domain::id::{JobId, TenantId, UserId};
use domain::job::{Definition, JobState, Overlap};
use domain::run::NewRun;
use engine::{Backfill, Deletion, NewJob, Trigger};
use jiff::{SignedDuration, Timestamp};
use store::SYSTEM;

use super::World;
use crate::clock::SECOND;
use crate::jobs;
use crate::machine::{SimNode, StepKind};
use crate::random::Random;

impl World {
    /// A client sends a random request to a random node.
    pub(super) fn ask(&mut self) {
        let able = |index: &usize| {
            let machine = &self.machines[*index];
            machine.is_awake() && machine.joined && machine.has_room_for(StepKind::Command)
        };
        let able: Vec<usize> = (0..self.machines.len()).filter(able).collect();
        if able.is_empty() {
            return;
        }
        let index = self.random.pick(&able);
        let Some(node) = self.machines[index].node.clone() else { return };
        let create = if self.jobs.len() < self.profile.jobs_max { 30 } else { 0 };
        if self.jobs.is_empty() || self.random.below(100) < create {
            return self.ask_to_create(index, node);
        }
        let (job, tenant) = self.random.pick(&self.jobs);
        let name = self.trace.job(job);
        let weights = if self.profile.flood {
            [0, 0, 0, 0, 0, 0, 20, 5, 0, 0, 0]
        } else {
            [10, 14, 5, 3, 10, 8, 20, 3, 12, 5, 4]
        };
        match self.random.weighted(&weights) {
            0 => self.run_command(index, format!("pause {name}"), async move {
                node.pause_job(job, SYSTEM).await.map(drop)
            }),
            1 => self.run_command(index, format!("resume {name}"), async move {
                node.resume_job(job, None, SYSTEM).await.map(drop)
            }),
            2 => self.ask_to_disable(index, node, job),
            3 => {
                let cascade = self.random.percent(70);
                let deletion = Deletion { cascade, ..Deletion::default() };
                self.run_command(index, format!("delete {name}"), async move {
                    node.delete_job(job, deletion, SYSTEM).await.map(drop)
                });
            }
            4 => {
                let dependent = self.random.percent(20);
                let when = jobs::when(&mut self.random, self.clock.store_wall(), dependent);
                self.run_command(index, format!("reschedule {name}"), async move {
                    let edit = |job: &mut domain::job::Job| {
                        job.definition.when = when;
                        // Without a next time nothing else would end a wait.
                        job.definition.dependency_timeout = Some(SignedDuration::from_secs(60));
                    };
                    node.alter_job(job, edit, SYSTEM).await.map(drop)
                });
            }
            5 => {
                let mut random = self.random.fork();
                self.run_command(index, format!("change policies of {name}"), async move {
                    let edit = |job: &mut domain::job::Job| {
                        jobs::policies(&mut random, &mut job.definition);
                        jobs::class(&mut random, &mut job.definition, false);
                    };
                    node.alter_job(job, edit, SYSTEM).await.map(drop)
                });
            }
            6 => self.ask_to_trigger(index, node, job, 1),
            7 => {
                let flood = self.random.between(10, if self.profile.flood { 80 } else { 40 });
                self.ask_to_trigger(index, node, job, flood);
            }
            8 => self.ask_to_cancel(index, node),
            9 => self.ask_to_backfill(index, node, job),
            _ => {
                let others = self.others(tenant, Some(job));
                let mut random = self.random.fork();
                let now = self.clock.store_wall();
                self.run_command(index, format!("redefine {name}"), async move {
                    let edit = |job: &mut domain::job::Job| {
                        job.definition = jobs::definition(&mut random, now, &others);
                    };
                    node.alter_job(job, edit, SYSTEM).await.map(drop)
                });
            }
        }
    }

    /// A client disables a job.
    pub(super) fn ask_to_disable(&mut self, index: usize, node: Arc<SimNode>, job: JobId) {
        let name = format!("disable {}", self.trace.job(job));
        self.run_command(index, name, async move { node.disable_job(job, SYSTEM).await.map(drop) });
    }

    fn run_command(
        &mut self,
        index: usize,
        name: String,
        work: impl Future<Output = engine::Result<()>> + 'static,
    ) {
        self.note(&format!("m{index} is asked: {name}"));
        let now = self.clock.true_us();
        self.machines[index].command(now, async move {
            match work.await {
                Ok(()) => format!("did: {name}"),
                Err(error) => format!("did not: {name}: {error}"),
            }
        });
        let step = self.machines[index].steps.len() - 1;
        self.resume(index, step);
    }

    fn others(&self, tenant: TenantId, but: Option<JobId>) -> Vec<JobId> {
        let other = |(job, of): &&(JobId, TenantId)| *of == tenant && Some(*job) != but;
        self.jobs.iter().filter(other).map(|(job, _)| *job).collect()
    }

    fn ask_to_create(&mut self, index: usize, node: Arc<SimNode>) {
        let tenant = self.random.pick(&self.tenants);
        let others = self.others(tenant, None);
        let name = format!("j{}", self.random.below(1_000));
        let mut definition = jobs::definition(&mut self.random, self.clock.store_wall(), &others);
        if !self.profile.flood {
            jobs::class(&mut self.random, &mut definition, true);
        }
        if self.profile.flood {
            definition = Definition { overlap: Overlap::Allow, ..Definition::default() };
        }
        let enabled = self.random.percent(90);
        let state = if enabled { JobState::Enabled } else { JobState::Disabled };
        let job = NewJob { tenant, owner: UserId::ADMIN, name: name.clone(), definition, state };
        self.run_command(index, format!("create {name}"), async move {
            node.create_job(job, SYSTEM).await.map(drop)
        });
    }

    fn ask_to_trigger(&mut self, index: usize, node: Arc<SimNode>, job: JobId, times: i64) {
        let wall = self.clock.store_wall();
        let later = self.random.percent(if times > 1 { 70 } else { 30 });
        let at =
            later.then(|| wall + SignedDuration::from_millis(self.random.between(-500, 6_000)));
        let with_dependencies = self.random.percent(20);
        let again = self.random.percent(50);
        let name = format!("trigger {} {times} times at {at:?}", self.trace.job(job));
        self.run_command(index, name, async move {
            let mut runs: Vec<NewRun> = Vec::new();
            for _ in 0..times {
                let trigger = Trigger { at, with_dependencies, ..Trigger::default() };
                runs.push(node.triggered(job, trigger).await?);
            }
            // A client that gets no reply sends the same request again.
            let mut submitted = node.submit(&runs).await;
            if submitted.is_err() && again {
                submitted = node.submit(&runs).await;
            }
            submitted.map(drop).map_err(engine::EngineError::from)
        });
    }

    fn ask_to_cancel(&mut self, index: usize, node: Arc<SimNode>) {
        let newest = self.runs.len().min(30) as u64;
        if newest == 0 {
            return;
        }
        let back = self.random.below(newest) as usize;
        let run = self.runs[self.runs.len() - 1 - back];
        self.run_command(index, format!("cancel {}", self.trace.run(run)), async move {
            node.cancel_run(run, "cancelled by a client", SYSTEM).await.map(drop)
        });
    }

    fn ask_to_backfill(&mut self, index: usize, node: Arc<SimNode>, job: JobId) {
        let wall = self.clock.store_wall();
        let ago = |random: &mut Random, us: i64| -> Timestamp {
            wall - SignedDuration::from_micros(random.between(0, us))
        };
        let from = ago(&mut self.random, 120 * SECOND);
        let until = from + SignedDuration::from_micros(self.random.between(0, 60 * SECOND));
        let newest_first = self.random.percent(50);
        let dry_run = self.random.percent(10);
        let backfill = Backfill {
            from,
            until,
            concurrency: None,
            newest_first,
            dry_run,
            parameters: None,
            requested_by: None,
        };
        self.run_command(index, format!("backfill {}", self.trace.job(job)), async move {
            node.backfill(job, backfill).await.map(drop)
        });
    }
}
