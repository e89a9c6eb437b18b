//! `punctual cron next --stdin`: many requests, one JSON object per line, one line of response
//! each.
//!
//! A line with an error gets an error as its response, so that responses stay in step with
//! requests. Responses are flushed whenever the next request has not arrived yet: a program that
//! waits for each response gets it at once, and a file costs few writes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read, Write};

use domain::schedule::{Cron, CronError, CronSchedule, DstPolicy, Zone, ZoneError, Zones};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::lines::{InputLine, InputLines, LINE_BYTES_MAX};
use super::{COUNT_MAX, Utc, instant, runs_after};
use crate::clock;

/// Defaults for lines that leave a field out.
pub(super) struct Defaults {
    /// The time zone.
    pub(super) zone: Zone,
    /// Where to begin; at the time of the answer when it is not given.
    pub(super) after: Option<Timestamp>,
    /// How many runs.
    pub(super) count: u32,
}

/// Answers every line of `input` on `out`.
pub(super) fn answer_all(
    input: impl Read,
    out: &mut dyn Write,
    zones: Zones,
    defaults: &Defaults,
) -> io::Result<()> {
    let mut lines = InputLines::new(input);
    let mut zones = ZoneCache { zones, looked_up: HashMap::new() };
    while let Some(line) = lines.next(|| out.flush())? {
        let answer = match answer(line, &mut zones, defaults) {
            Ok(runs) => CronResponse::Next(runs),
            Err(problem) => CronResponse::Error(problem),
        };
        serde_json::to_writer(&mut *out, &answer)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// One line of the input.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CronRequest<'a> {
    #[serde(borrow)]
    expr: Text<'a>,
    #[serde(borrow)]
    tz: Option<Text<'a>>,
    #[serde(borrow)]
    after: Option<Text<'a>>,
    count: Option<u64>,
}

/// A string of the input, copied only when it contains escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// One line of the output.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum CronResponse {
    Next(Vec<Utc>),
    Error(CronProblem),
}

/// Why a line has no answer.
#[derive(Serialize)]
struct CronProblem {
    code: &'static str,
    message: String,
    /// The offending bytes of `expr` or `tz`.
    #[serde(skip_serializing_if = "Option::is_none")]
    span: Option<(usize, usize)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl CronProblem {
    fn request(message: impl Into<String>) -> Self {
        CronProblem { code: "INVALID_REQUEST", message: message.into(), span: None, hint: None }
    }
}

impl From<CronError> for CronProblem {
    fn from(error: CronError) -> Self {
        CronProblem {
            code: "INVALID_CRON",
            message: error.to_string(),
            span: Some((error.span.start, error.span.end)),
            hint: error.hint,
        }
    }
}

impl From<ZoneError> for CronProblem {
    fn from(error: ZoneError) -> Self {
        CronProblem {
            code: "INVALID_TIMEZONE",
            message: error.to_string(),
            span: Some((0, error.name.len())),
            hint: None,
        }
    }
}

fn answer(
    line: InputLine<'_>,
    zones: &mut ZoneCache,
    defaults: &Defaults,
) -> Result<Vec<Utc>, CronProblem> {
    let request = read_request(line)?;
    let cron: Cron = request.expr.0.parse()?;
    let zone = match request.tz {
        Some(name) => zones.find(&name.0)?,
        None => defaults.zone.clone(),
    };
    let after = match (request.after, defaults.after) {
        (Some(text), _) => instant(&text.0)
            .map_err(|problem| CronProblem::request(format!("after: {:?} is {problem}", text.0)))?,
        (None, Some(after)) => after,
        (None, None) => clock::now(),
    };
    let count = request.count.unwrap_or(defaults.count.into());
    let count = u32::try_from(count).ok().filter(|count| (1..=COUNT_MAX).contains(count));
    let count = count
        .ok_or_else(|| CronProblem::request(format!("count: must be from 1 to {COUNT_MAX}")))?;
    let schedule = CronSchedule::new(cron, zone, DstPolicy::default());
    Ok(runs_after(&schedule, after, count).map(Utc).collect())
}

fn read_request(line: InputLine<'_>) -> Result<CronRequest<'_>, CronProblem> {
    match line {
        InputLine::Bytes(bytes) if bytes.trim_ascii().is_empty() => {
            Err(CronProblem::request("the line is empty; expected a JSON object"))
        }
        InputLine::Bytes(bytes) => {
            serde_json::from_slice(bytes).map_err(|error| CronProblem::request(error.to_string()))
        }
        InputLine::TooLong => {
            Err(CronProblem::request(format!("the line is longer than {LINE_BYTES_MAX} bytes")))
        }
    }
}

/// Look-ups by the name that was asked for: one costs more than a schedule, and one that fails
/// a thousand times more, because it searches for a suggestion.
struct ZoneCache {
    zones: Zones,
    looked_up: HashMap<String, Result<Zone, ZoneError>>,
}

impl ZoneCache {
    /// More than there are zones; only odd spellings can fill the cache.
    const SIZE_MAX: usize = 1024;

    fn find(&mut self, name: &str) -> Result<Zone, ZoneError> {
        if let Some(zone) = self.looked_up.get(name) {
            return zone.clone();
        }
        let zone = self.zones.find(name);
        if self.looked_up.len() == Self::SIZE_MAX {
            self.looked_up.clear();
        }
        self.looked_up.insert(name.to_owned(), zone.clone());
        zone
    }
}
