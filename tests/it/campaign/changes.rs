//! Changes by users while faults happen: edits, pauses, resumes and runs by hand, each with the
//! time at which the server acknowledged it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::endpoint::{Endpoint, now};
use super::jobs::{CampaignJob, Role};
use super::stage::Stage;
use crate::serve::ledger::{Chance, pass};
use crate::serve::process::until;

/// A new version of a job's body.
#[derive(Clone, Debug)]
pub struct Edit {
    pub job: String,
    pub version: u64,
    pub acked: Timestamp,
}

/// A pause of a job, from its acknowledgement to the request that ends it.
#[derive(Clone, Debug)]
pub struct Pause {
    pub job: String,
    /// Before the request.
    pub sent: Timestamp,
    pub acked: Timestamp,
    /// Before the request that ends it, and after its answer; none while it lasts.
    pub resumed: Option<(Timestamp, Timestamp)>,
}

#[derive(Default)]
pub struct Changes {
    pub edits: Vec<Edit>,
    pub pauses: Vec<Pause>,
    /// Runs that were asked for and acknowledged, with their jobs.
    pub triggered: Vec<(String, String)>,
    last_version: u64,
}

impl Changes {
    /// Some changes at random moments within `time`.
    pub fn make_some(
        &mut self,
        stage: &Stage,
        (jobs, endpoint): (&[CampaignJob], &Endpoint),
        chance: &mut Chance,
        time: Duration,
    ) {
        let count = 2 + chance.below(4) as u32;
        for _ in 0..count {
            pass(time / count);
            let some = |role: Role, chance: &mut Chance| {
                let of_role: Vec<&CampaignJob> =
                    jobs.iter().filter(|job| job.role == role).collect();
                of_role[chance.below(of_role.len() as u64) as usize]
            };
            match chance.below(8) {
                0..=2 => self.edit(stage, endpoint, some(Role::Edited, chance)),
                3..=4 => self.pause_or_resume(stage, &some(Role::Paused, chance).name),
                5 => self.trigger(stage, &some(Role::Manual, chance).name),
                6 => self.trigger(stage, &some(Role::Steady, chance).name),
                // The endpoint never answers these; nothing is expected of them.
                _ => {
                    for _ in 0..10 {
                        stage.request("POST", "/v1/jobs/hostile/trigger", None);
                    }
                }
            }
        }
    }

    fn edit(&mut self, stage: &Stage, endpoint: &Endpoint, job: &CampaignJob) {
        self.last_version = self.last_version.max(1) + 1;
        let version = self.last_version;
        let change = json!({"payload": job.payload(endpoint, version)});
        stage.call("PATCH", &format!("/v1/jobs/{}", job.name), Some(&change));
        self.edits.push(Edit { job: job.name.clone(), version, acked: now() });
    }

    fn pause_or_resume(&mut self, stage: &Stage, job: &str) {
        if self.pauses.iter().any(|pause| pause.job == job && pause.resumed.is_none()) {
            return self.resume(stage, job);
        }
        let sent = now();
        stage.call("POST", &format!("/v1/jobs/{job}/pause"), None);
        let job = job.to_owned();
        self.pauses.push(Pause { job, sent, acked: now(), resumed: None });
    }

    fn resume(&mut self, stage: &Stage, job: &str) {
        let sent = now();
        stage.call("POST", &format!("/v1/jobs/{job}/resume"), None);
        let open = |pause: &&mut Pause| pause.job == job && pause.resumed.is_none();
        let pause = self.pauses.iter_mut().find(open).unwrap();
        pause.resumed = Some((sent, now()));
    }

    /// Ends every pause that lasts.
    pub fn resume_all(&mut self, stage: &Stage) {
        let open = self.pauses.iter().filter(|pause| pause.resumed.is_none());
        let open: Vec<String> = open.map(|pause| pause.job.clone()).collect();
        open.iter().for_each(|job| self.resume(stage, job));
    }

    /// Asks for a run. One whose answer was lost may have been made twice; only the acknowledged
    /// one must be there.
    fn trigger(&mut self, stage: &Stage, job: &str) {
        let path = format!("/v1/jobs/{job}/trigger");
        let (status, run) = until(|| stage.request("POST", &path, None));
        assert_eq!(status, 202, "{run}");
        self.triggered.push((job.to_owned(), run["execution_id"].as_str().unwrap().to_owned()));
    }
}
