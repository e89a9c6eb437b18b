//! Which jobs need a person: those that fail, were missed or are skipped again and again, and did
//! not recover since.

use std::collections::{HashMap, HashSet};

use axum::Json;
use axum::extract::State;
use domain::id::{JobId, RunId};
use domain::run::{Outcome, ReasonCode, RunState};
use engine::{RecentEnd, RunFilter, RunView};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::shape::job_view::RunOutcome;
use crate::actor::Actor;
use crate::app::App;
use crate::problem::Result;

/// How far back trouble counts.
const SINCE: SignedDuration = SignedDuration::from_hours(24);

/// How many runs of each kind that did not complete are looked at.
const RUNS_MAX: u32 = 100;

/// How many jobs are listed.
const JOBS_MAX: usize = 50;

/// How many ends of each job are shown.
const ENDS: u32 = 20;

/// A job is skipped too often when so many of its last `SKIPS_OF` times were.
const SKIPS: usize = 4;
const SKIPS_OF: usize = 8;

/// Why a job needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AttentionKind {
    /// Its last runs failed or timed out.
    Failing,
    /// Its last times passed without a run.
    Missed,
    /// Many of its last times were skipped.
    Skipping,
}

/// A job that needs a person.
#[derive(Serialize, ToSchema)]
pub struct AttentionItem {
    /// The reason.
    pub kind: AttentionKind,
    /// The job.
    pub job_id: Uuid,
    /// Its name.
    pub job_name: String,
    /// Whether the job is a DAG.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub is_dag: bool,
    /// How its last run ended.
    #[schema(value_type = String)]
    pub status: &'static str,
    /// The time that the first bad run of the row stands for.
    pub since: Timestamp,
    /// How many runs are in the row, counted up to 20; of the last 8 for skipped ones.
    pub count: usize,
    /// The last of them.
    pub execution_id: Uuid,
    /// The problem, as a sentence.
    pub text: String,
    /// The version of the job that the row began with, if the run before it completed under an
    /// earlier one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_version: Option<u32>,
    /// How its last 20 runs ended, newest first.
    pub last_outcomes: Vec<RunOutcome>,
}

/// The jobs that need a person.
#[derive(Serialize, ToSchema)]
pub struct Attention {
    /// Worst first, at most 50.
    pub data: Vec<AttentionItem>,
    /// How many jobs need a person, among those that were looked at.
    pub total: usize,
    /// Whether there was more trouble in the last 24 hours than was looked at.
    pub is_cut: bool,
}

/// Lists the jobs that need a person: their last runs in 24 hours failed, were missed, or are
/// skipped again and again. A job whose last run completed is not among them.
#[utoipa::path(
    get, path = "/v1/attention", operation_id = "list_attention", tag = "jobs",
    responses((status = 200, body = Attention))
)]
pub(crate) async fn attention(State(app): State<App>, actor: Actor) -> Result<Json<Attention>> {
    // Each kind by itself: after an outage, thousands of skipped times must not hide a failure.
    let kinds = [&[Outcome::Failed, Outcome::Timeout][..], &[Outcome::Missed], &[Outcome::Skipped]];
    let mut runs: HashMap<RunId, RunView> = HashMap::new();
    let mut is_cut = false;
    for outcomes in kinds {
        let filter = RunFilter {
            states: outcomes.iter().copied().map(RunState::Ended).collect(),
            since: app.now().checked_sub(SINCE).ok(),
            without_steps: true,
            ..RunFilter::of_tenant(actor.tenant)
        };
        let page = app.engine.by(&actor).list_runs(&filter, None, RUNS_MAX).await?;
        is_cut |= page.next.is_some();
        runs.extend(page.items.into_iter().map(|run| (run.id, run)));
    }
    let ids: HashSet<JobId> = runs.values().map(|run| run.job).collect();
    let ids: Vec<JobId> = ids.into_iter().collect();
    let jobs = app.engine.by(&actor).jobs_by_id(&ids).await?;
    let mut ends: HashMap<JobId, Vec<RecentEnd>> = HashMap::new();
    for end in app.engine.by(&actor).recent_ends(&ids, ENDS).await? {
        ends.entry(end.job).or_default().push(end);
    }
    let item = |job: &domain::job::Job| {
        let ends = ends.get(&job.id)?;
        let trouble = Trouble::of(ends)?;
        let last = runs.get(&trouble.last.run);
        Some(AttentionItem {
            kind: trouble.kind,
            job_id: job.id.0,
            job_name: job.name.clone(),
            is_dag: job.definition.is_dag(),
            status: trouble.last.outcome.name(),
            since: trouble.first.scheduled_for,
            count: trouble.count,
            execution_id: trouble.last.run.0,
            text: trouble.sentence(last),
            since_version: trouble.since_version,
            last_outcomes: ends.iter().map(RunOutcome::from).collect(),
        })
    };
    let mut data: Vec<AttentionItem> = jobs.iter().filter_map(item).collect();
    data.sort_by(|a, b| (a.kind, b.count, &a.job_name).cmp(&(b.kind, a.count, &b.job_name)));
    let total = data.len();
    data.truncate(JOBS_MAX);
    Ok(Json(Attention { data, total, is_cut }))
}

/// The reason why a job needs attention, from the outcomes of its last runs.
struct Trouble {
    kind: AttentionKind,
    first: RecentEnd,
    last: RecentEnd,
    count: usize,
    since_version: Option<u32>,
}

impl Trouble {
    /// None when the job has recovered, or was skipped now and then. `ends` are newest first.
    fn of(ends: &[RecentEnd]) -> Option<Self> {
        let last = *ends.first()?;
        let is_failure =
            |end: &RecentEnd| matches!(end.outcome, Outcome::Failed | Outcome::Timeout);
        let (kind, belongs): (_, fn(&RecentEnd) -> bool) = match last.outcome {
            Outcome::Failed | Outcome::Timeout => (AttentionKind::Failing, |end| {
                matches!(end.outcome, Outcome::Failed | Outcome::Timeout)
            }),
            Outcome::Missed => (AttentionKind::Missed, |end| end.outcome == Outcome::Missed),
            Outcome::Skipped => {
                let lately = &ends[..ends.len().min(SKIPS_OF)];
                let skipped = |end: &&RecentEnd| end.outcome == Outcome::Skipped;
                // A run that failed is not forgotten because the next one was skipped.
                let carried = ends.iter().find(|end| end.outcome != Outcome::Skipped);
                if let Some(failed) = carried.filter(|end| is_failure(end)) {
                    let from = ends.iter().position(|end| end.run == failed.run)?;
                    return Trouble::of(&ends[from..]);
                }
                let count = lately.iter().filter(skipped).count();
                let first = *lately.iter().rfind(skipped)?;
                let kind = AttentionKind::Skipping;
                return (count >= SKIPS).then_some(Trouble {
                    kind,
                    first,
                    last,
                    count,
                    since_version: None,
                });
            }
            Outcome::Completed | Outcome::Cancelled => return None,
        };
        let count = ends.iter().take_while(|end| belongs(end)).count();
        let first = ends[count - 1];
        let before = ends.get(count).filter(|end| end.outcome == Outcome::Completed);
        let since_version = before
            .filter(|before| before.job_version < first.job_version)
            .map(|_| first.job_version);
        Some(Trouble { kind, first, last, count, since_version })
    }

    fn sentence(&self, last: Option<&RunView>) -> String {
        let times = |verb: &str| match self.count {
            1 => verb.to_owned(),
            n if n as u32 == ENDS => format!("{verb} at least {n} times in a row"),
            n => format!("{verb} {n} times in a row"),
        };
        let what = match (self.kind, self.last.outcome) {
            (AttentionKind::Failing, Outcome::Timeout) => times("timed out"),
            (AttentionKind::Failing, _) => times("failed"),
            (AttentionKind::Missed, _) => times("missed"),
            (AttentionKind::Skipping, _) => {
                format!("skipped {} of the last {SKIPS_OF} times", self.count)
            }
        };
        let overlap = ReasonCode::Overlap.name();
        let why = last.and_then(|run| match self.kind {
            AttentionKind::Skipping if run.reason.as_deref() == Some(overlap) => {
                Some("an earlier run had not ended".to_owned())
            }
            AttentionKind::Failing => run.message.clone().or_else(|| run.reason_text.clone()),
            _ => run.reason_text.clone().or_else(|| run.message.clone()),
        });
        match why.as_deref().map(str::trim).filter(|why| !why.is_empty()) {
            Some(why) => format!("{what}: {}", shortened(why)),
            None => what,
        }
    }
}

/// The first line of a message, not too long.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of a job from a word, newest first: Completed, Failed, Timeout, Missed, Skipped, Xancelled;
    /// a small letter is a run of version 1, a capital one of version 2.
    fn ends(word: &str) -> Vec<RecentEnd> {
        let end = |(n, letter): (usize, char)| RecentEnd {
            job: JobId::NONE,
            run: RunId(Uuid::from_u128(1000 - n as u128)),
            scheduled_for: Timestamp::from_second(1000 - n as i64).unwrap(),
            outcome: match letter.to_ascii_lowercase() {
                'c' => Outcome::Completed,
                'f' => Outcome::Failed,
                't' => Outcome::Timeout,
                'm' => Outcome::Missed,
                's' => Outcome::Skipped,
                _ => Outcome::Cancelled,
            },
            job_version: if letter.is_uppercase() { 2 } else { 1 },
        };
        word.chars().enumerate().map(end).collect()
    }

    #[test]
    fn trouble_is_what_has_not_ended() {
        use AttentionKind::*;
        for (word, expected) in [
            ("", None),
            ("c", None),
            ("cfff", None),
            ("xfff", None),
            ("f", Some((Failing, 1, None))),
            ("ftfcf", Some((Failing, 3, None))),
            ("FFc", Some((Failing, 2, Some(2)))),
            ("Ffc", Some((Failing, 2, None))),
            ("mmc", Some((Missed, 2, None))),
            ("sccc", None),
            ("ssscccccc", None),
            ("sscscsccc", Some((Skipping, 4, None))),
            // A skipped time does not interrupt a series of failures.
            ("sffc", Some((Failing, 2, None))),
        ] {
            let found = Trouble::of(&ends(word));
            let found = found.map(|it| (it.kind, it.count, it.since_version));
            assert_eq!(found, expected, "{word}");
        }
    }
}
