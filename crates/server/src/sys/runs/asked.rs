//! The constraints of a scan on runs, in the types of the engine. They may match more rows than the
//! scan, and never fewer: the query filters the rows again.

use domain::id::JobId;
use domain::run::{Origin, Outcome, RunState};
use engine::{RunFilter, RunsOf, StartFilter, StartKey};
use jiff::{SignedDuration, Timestamp};
use query::{Is, QueryError, Scan, Value};

use super::{CLOCKS, LATE};
use crate::sys::Sys;
use crate::sys::jobs::ever_named;

/// The states of live runs.
pub(super) const LIVE: [RunState; 4] =
    [RunState::Pending, RunState::Queued, RunState::Running, RunState::Held];

/// The runs that match a scan.
pub(super) struct Asked {
    /// The jobs or the tenant that they belong to.
    pub of: Vec<RunsOf>,
    /// In these states; in any when empty.
    pub states: Vec<RunState>,
    /// Or with several attempts, one of which may be what is asked for.
    pub retried: bool,
    /// Their origin.
    pub origin: Option<Origin>,
    /// The times that they stand for: from this one on, up to but without the other one.
    pub times: (Option<Timestamp>, Option<Timestamp>),
    /// When an attempt began: then or later, and before the other time.
    pub starts: (Option<Timestamp>, Option<Timestamp>),
    /// Whether an attempt must have begun.
    pub begun: bool,
}

impl Asked {
    /// The constraints of a scan of `sys.job_runs`, whose rows are attempts.
    pub fn of_attempts(sys: &Sys, scan: &Scan) -> Result<Self, QueryError> {
        let starts = within(scan, &["started_at", "started"]);
        let known = |name| scan.ranges(name).next().is_some();
        let mut asked = Asked {
            starts,
            begun: known("started_at") || known("started"),
            ..Asked::of_runs(sys, scan)?
        };
        let words = words(scan, "state").map(|words| states_of(&words, of_catalog));
        let details = self::words(scan, "state_detail").map(|words| states_of(&words, of_detail));
        if let Some((states, retried)) = details.or(words) {
            if states.is_empty() && !retried {
                asked.of.clear();
            }
            (asked.states, asked.retried) = (states, retried);
        }
        Ok(asked)
    }

    /// The constraints of a scan whose rows are runs.
    pub fn of_runs(sys: &Sys, scan: &Scan) -> Result<Self, QueryError> {
        let tenant = sys.actor.tenant;
        let of = match ever_named(sys, scan)? {
            // Runs of a purged job are found by a scan of the tenant.
            Some(jobs) if scan.values("job_uuid").is_none_or(|ids| ids.len() <= jobs.len()) => {
                jobs.iter().map(|job| RunsOf::Job(job.id)).collect()
            }
            _ => vec![RunsOf::Tenant(tenant)],
        };
        let states = words(scan, "outcome").map(|words| states_of(&words, of_detail).0);
        let origins = words(scan, "origin").unwrap_or_default();
        let origin = |word: &String| {
            let quoted = serde_json::Value::String(word.clone());
            serde_json::from_value(quoted).ok()
        };
        let is_none = states.as_ref().is_some_and(Vec::is_empty);
        Ok(Asked {
            of: if is_none { Vec::new() } else { of },
            states: states.unwrap_or_default(),
            retried: false,
            origin: Some(origins).filter(|it| it.len() == 1).and_then(|it| origin(&it[0])),
            times: within(scan, &["scheduled_time", "scheduled_for"]),
            starts: (None, None),
            begun: false,
        })
    }

    /// The lists that together have all runs of a user that can be meant, by their ids. An id has
    /// the time that its run stands for. Only a run that was requested again has a later one,
    /// so that runs of earlier times than one are those with earlier ids, and some by hand.
    pub fn lists(&self, of: RunsOf) -> Vec<RunFilter> {
        let all = RunFilter {
            states: self.states.clone(),
            origin: self.origin,
            since: self.times.0,
            // No attempt begins before the time of its run's id, but for the clocks.
            until: self
                .starts
                .1
                .map(|until| until.saturating_add(CLOCKS).unwrap_or(Timestamp::MAX)),
            ..RunFilter::new(of)
        };
        let Some(before) = self.times.1 else { return vec![all] };
        let earlier = all.until.map_or(before, |until| until.min(before));
        let mut lists = vec![RunFilter { until: Some(earlier), ..all.clone() }];
        if self.origin.is_none_or(|origin| origin == Origin::Manual) {
            let by_hand = RunFilter { origin: Some(Origin::Manual), since: Some(before), ..all };
            lists.push(by_hand);
        }
        lists
    }

    /// The same without those that are meant only because of their attempts.
    pub fn lists_by_state(&self, of: RunsOf) -> Vec<RunFilter> {
        let some = !self.states.is_empty() || !self.retried;
        if some { self.lists(of) } else { Vec::new() }
    }

    /// The live runs of a user that can be meant.
    pub fn live(&self, of: RunsOf) -> Option<RunFilter> {
        let wanted = |state: &RunState| self.retried || self.lets(*state);
        let states: Vec<RunState> = LIVE.into_iter().filter(wanted).collect();
        let filter = RunFilter { states, origin: self.origin, ..RunFilter::new(of) };
        (!filter.states.is_empty()).then_some(filter)
    }

    fn lets(&self, state: RunState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }

    /// Whether an outcome can match.
    pub fn lets_end(&self, outcome: Outcome, attempts: u32) -> bool {
        self.lets(RunState::Ended(outcome)) || self.retried && attempts > 1
    }

    /// The ended runs of a job that can be meant, by when they began; none if no end is asked for.
    pub fn ends(&self, job: JobId) -> Option<StartFilter> {
        let outcomes = self.states.iter().filter_map(|state| match state {
            RunState::Ended(outcome) => Some(*outcome),
            _ => None,
        });
        let filter = StartFilter { job, outcomes: outcomes.collect(), retried: self.retried };
        let some = self.states.is_empty() || filter.retried || !filter.outcomes.is_empty();
        some.then_some(filter)
    }

    /// The place among starts after which the first one that began can be.
    pub fn first_start(&self) -> StartKey {
        self.starts.1.map_or(StartKey::BEGUN, StartKey::before)
    }

    /// The time from which on those are listed by id that began then or later, but for late ones.
    pub fn since_in_time(&self) -> Option<Timestamp> {
        self.starts.0.map(|since| since.saturating_sub(LATE).unwrap_or(Timestamp::MIN))
    }
}

/// The times that some columns can have: from the first one on, and before the second one. Rows
/// show milliseconds, and what lies behind them is finer.
fn within(scan: &Scan, names: &[&str]) -> (Option<Timestamp>, Option<Timestamp>) {
    let at = |value: &Value| match value {
        Value::Int(ms) => Timestamp::from_millisecond(*ms).ok(),
        Value::Float(ms) => Timestamp::from_millisecond(*ms as i64).ok(),
        Value::Time(at) => Some(*at),
        _ => None,
    };
    let after = |at: Timestamp| at.checked_add(SignedDuration::from_millis(1)).ok();
    let (mut since, mut until) = (None, None);
    let mut earliest = |at: Option<Timestamp>| {
        if let Some(at) = at {
            until = Some(until.map_or(at, |until: Timestamp| until.min(at)));
        }
    };
    for name in names {
        for is in scan.ranges(name) {
            match is {
                Is::AtLeast(value) | Is::MoreThan(value) => since = since.max(at(value)),
                Is::AtMost(value) | Is::LessThan(value) => earliest(at(value).and_then(after)),
                Is::In(_) | Is::Known => {}
            }
        }
        if let Some(values) = scan.values(name) {
            since = since.max(values.iter().filter_map(at).min());
            earliest(values.iter().filter_map(at).max().and_then(after));
        }
    }
    (since, until)
}

/// The words that a column can have, if they are given.
fn words(scan: &Scan, name: &str) -> Option<Vec<String>> {
    let word = |value: &Value| match value {
        Value::Text(word) => Some(word.to_string()),
        _ => None,
    };
    Some(scan.values(name)?.iter().filter_map(word).collect())
}

/// States by their words, and whether an earlier attempt of any run may have one of them. A word
/// that no run has stands for nothing.
fn states_of(words: &[String], of: fn(&str) -> &'static [RunState]) -> (Vec<RunState>, bool) {
    let states: Vec<RunState> = words.iter().flat_map(|word| of(word)).copied().collect();
    let attempts = ["FAILED", "CANCELLED", "TIMEOUT", "LOST"];
    let retried = words.iter().any(|word| attempts.contains(&word.as_str()));
    (states, retried)
}

/// The states of runs that a word of the catalog stands for.
fn of_catalog(word: &str) -> &'static [RunState] {
    match word {
        "PENDING" => &[RunState::Pending, RunState::Queued, RunState::Held],
        "CANCELLED" => &[
            RunState::Ended(Outcome::Cancelled),
            RunState::Ended(Outcome::Timeout),
            RunState::Ended(Outcome::Skipped),
            RunState::Ended(Outcome::Missed),
        ],
        word => of_detail(word),
    }
}

/// The states of runs that a word of ours stands for.
fn of_detail(word: &str) -> &'static [RunState] {
    match word {
        "PENDING" => &[RunState::Pending],
        "QUEUED" => &[RunState::Queued],
        "RUNNING" => &[RunState::Running],
        "HELD" => &[RunState::Held],
        "COMPLETED" => &[RunState::Ended(Outcome::Completed)],
        "FAILED" => &[RunState::Ended(Outcome::Failed)],
        "CANCELLED" => &[RunState::Ended(Outcome::Cancelled)],
        "TIMEOUT" => &[RunState::Ended(Outcome::Timeout)],
        "SKIPPED" => &[RunState::Ended(Outcome::Skipped)],
        "MISSED" => &[RunState::Ended(Outcome::Missed)],
        _ => &[],
    }
}
