//! The lines of an output: where they begin, and which of them contain a text. An output of any
//! size is read in steps of a bounded length, and each answer says where the next one goes on.

use agent::output::{Piece, Slice};
use axum::Json;
use axum::extract::{Path, State};
use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::logs::Log;
use crate::actor::Actor;
use crate::app::App;
use crate::body::Params;
use crate::problem::{Code, ErrorBody, Problem, Result};

/// How much of an output one request reads, and how much at once.
const STEP_BYTES: usize = 16 << 20;
const READ_BYTES: usize = 2 << 20;

/// A mark is set after so many lines, or so many bytes.
const MARK_LINES: u64 = 1_000;
const MARK_BYTES: u64 = 256 << 10;

/// A longer line is searched in pieces of this length.
const LINE_BYTES_MAX: usize = 1 << 20;

/// How many hits an answer has.
const HITS_DEFAULT: usize = 500;
const HITS_MAX: usize = 5_000;

/// How much of a line a hit shows: characters before the match, and in all.
const SHOWN_BEFORE: usize = 60;
const SHOWN_CHARS: usize = 240;

/// The longest text that is searched for.
const QUERY_BYTES_MAX: usize = 1_000;

/// How large a regular expression may become, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// Which output is described, and from where on.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogIndexParams {
    /// Of this attempt, from 1; the last one when absent.
    attempt: Option<u32>,
    /// `stdout` or `stderr`; both when absent.
    #[param(pattern = "^(stdout|stderr)$")]
    stream: Option<String>,
    /// The position to go on at: `next_from` of the answer before, or the position of a mark.
    from: Option<u64>,
    /// The number of the line that begins there, from 0: `next_line` of the answer before, or the
    /// line of the mark.
    line: Option<u64>,
}

/// Where a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LogMark {
    /// The number of the line, from 0.
    pub line: u64,
    /// The position of its first byte.
    pub position: u64,
}

/// A part of the output that was left out. It counts as one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LogCut {
    /// The number of the line that stands for it, from 0.
    pub line: u64,
    /// The first position that was left out.
    pub position: u64,
    /// How many bytes were left out.
    pub omitted: u64,
}

/// The lines of an output.
#[derive(Serialize, ToSchema)]
pub struct LogIndex {
    /// The attempt.
    pub attempt: u32,
    /// How many bytes the attempt has written so far.
    pub total: u64,
    /// How many of them were left out.
    pub omitted: u64,
    /// Whether the attempt writes no more.
    pub is_final: bool,
    /// How many lines there are up to `next_from`. A last line without an end counts.
    pub lines: u64,
    /// Where lines begin: about every thousandth, at least one in 256 KB unless a line is longer,
    /// and the first line after a cut.
    pub marks: Vec<LogMark>,
    /// Parts of the output that were left out.
    pub cuts: Vec<LogCut>,
    /// The position to go on at, the begin of a line; null when everything was read. The end of a
    /// growing output is read again from its last mark.
    pub next_from: Option<u64>,
    /// The number of the line that begins there.
    pub next_line: Option<u64>,
}

/// Parameters of a search.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogSearchParams {
    /// Of this attempt, from 1; the last one when absent.
    attempt: Option<u32>,
    /// `stdout` or `stderr`; both when absent.
    #[param(pattern = "^(stdout|stderr)$")]
    stream: Option<String>,
    /// The text, at most 1,000 bytes.
    #[param(min_length = 1, max_length = 1000)]
    q: String,
    /// Whether the text is a regular expression.
    regex: Option<bool>,
    /// Whether capital and small letters differ.
    case: Option<bool>,
    /// Whether only whole words count.
    word: Option<bool>,
    /// The position to go on at: `next_from` of the answer before.
    from: Option<u64>,
    /// The number of the line that begins there, from 0: `next_line` of the answer before.
    line: Option<u64>,
    /// The most hits; 500 when absent, at most 5,000.
    #[param(minimum = 1, maximum = 5000)]
    limit: Option<usize>,
}

/// A line that matches.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LogHit {
    /// Its number, from 0.
    pub line: u64,
    /// The position of its first byte.
    pub position: u64,
    /// The line around the first match, without colours, at most 240 characters.
    pub text: String,
}

/// Lines that match.
#[derive(Serialize, ToSchema)]
pub struct LogHits {
    /// In their order.
    pub hits: Vec<LogHit>,
    /// How far the output was searched.
    pub scanned_until: u64,
    /// How many bytes the attempt has written so far.
    pub total: u64,
    /// Whether the attempt writes no more.
    pub is_final: bool,
    /// The position to go on at; null when everything was searched.
    pub next_from: Option<u64>,
    /// The number of the line that begins there.
    pub next_line: Option<u64>,
}

/// Takes lines apart, piece by piece.
trait LineSink {
    /// A line begins.
    fn begin(&mut self, line: u64, position: u64);
    /// Some of the text of the present line.
    fn text(&mut self, bytes: &[u8]);
    /// The present line is complete. Answers whether to go on.
    fn end(&mut self) -> bool;
    /// A line stands for what was left out.
    fn cut(&mut self, cut: LogCut);
}

/// Where a scan has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scan {
    /// The number of the present line.
    line: u64,
    /// Where it begins.
    line_start: u64,
    /// Whether it has text or an end is to come.
    is_open: bool,
}

impl Scan {
    fn at(line: u64, position: u64) -> Self {
        Scan { line, line_start: position, is_open: false }
    }

    fn open(&mut self, position: u64, sink: &mut impl LineSink) {
        if !self.is_open {
            self.line_start = position;
            self.is_open = true;
            sink.begin(self.line, position);
        }
    }

    /// Ends the present line; the next one begins at this position.
    fn close(&mut self, next: u64, sink: &mut impl LineSink) -> bool {
        let goes_on = !self.is_open || sink.end();
        self.line += u64::from(self.is_open);
        self.line_start = next;
        self.is_open = false;
        goes_on
    }

    /// Takes a slice in. Answers whether to go on.
    fn feed(&mut self, slice: &Slice, sink: &mut impl LineSink) -> bool {
        let mut begin = 0;
        for piece in &slice.pieces {
            match *piece {
                Piece::Text { position, length } => {
                    let bytes = &slice.bytes[begin..begin + length];
                    begin += length;
                    let mut done = 0;
                    while done < bytes.len() {
                        let rest = &bytes[done..];
                        self.open(position + done as u64, sink);
                        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                            sink.text(rest);
                            break;
                        };
                        sink.text(&rest[..end]);
                        done += end + 1;
                        if !self.close(position + done as u64, sink) {
                            return false;
                        }
                    }
                }
                Piece::Cut { position, omitted, length } => {
                    begin += length;
                    // The line of the cut begins with an end of line: before it, a line without
                    // text has one, too.
                    self.open(position, sink);
                    let goes_on = self.close(position, sink);
                    sink.cut(LogCut { line: self.line, position, omitted });
                    self.line += 1;
                    self.line_start = position + omitted;
                    if !goes_on {
                        return false;
                    }
                }
            }
        }
        true
    }
}

/// Collects marks and cuts.
#[derive(Default)]
struct Marks {
    marks: Vec<LogMark>,
    cuts: Vec<LogCut>,
    is_after_cut: bool,
}

impl LineSink for Marks {
    fn begin(&mut self, line: u64, position: u64) {
        let is_far = self.marks.last().is_none_or(|last| {
            line >= last.line + MARK_LINES || position >= last.position + MARK_BYTES
        });
        if is_far || self.is_after_cut {
            self.marks.push(LogMark { line, position });
        }
        self.is_after_cut = false;
    }

    fn text(&mut self, _: &[u8]) {}

    fn end(&mut self) -> bool {
        true
    }

    fn cut(&mut self, cut: LogCut) {
        self.cuts.push(cut);
        self.is_after_cut = true;
    }
}

/// Collects lines that match.
struct Matches {
    pattern: Regex,
    limit: usize,
    hits: Vec<LogHit>,
    line: u64,
    position: u64,
    text: Vec<u8>,
    has_matched: bool,
}

impl Matches {
    fn try_text(&mut self) {
        if self.has_matched {
            self.text.clear();
            return;
        }
        let plain = without_escapes(&self.text);
        if let Some(found) = self.pattern.find(&plain) {
            let text = shown(&plain, found.start(), found.end());
            self.hits.push(LogHit { line: self.line, position: self.position, text });
            self.has_matched = true;
        }
        self.text.clear();
    }
}

impl LineSink for Matches {
    fn begin(&mut self, line: u64, position: u64) {
        (self.line, self.position, self.has_matched) = (line, position, false);
        self.text.clear();
    }

    fn text(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(LINE_BYTES_MAX) {
            if self.text.len() + part.len() > LINE_BYTES_MAX {
                self.try_text();
            }
            self.text.extend_from_slice(part);
        }
    }

    fn end(&mut self) -> bool {
        self.try_text();
        self.hits.len() < self.limit
    }

    fn cut(&mut self, _: LogCut) {}
}

/// A line without escape sequences of terminals, as it is shown.
fn without_escapes(line: &[u8]) -> Vec<u8> {
    const ESCAPE: u8 = 0x1b;
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.iter().position(|byte| *byte == ESCAPE) {
        plain.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let ends = |from: usize, is_end: fn(&u8) -> bool| {
            rest[from..].iter().position(is_end).map_or(rest.len(), |end| from + end + 1)
        };
        let length = match rest.first() {
            Some(b'[') => ends(1, |byte| (0x40..=0x7e).contains(byte)),
            Some(b']') => ends(1, |byte| matches!(byte, 0x07 | b'\\')),
            Some(_) => 1,
            None => 0,
        };
        rest = &rest[length..];
    }
    plain.extend_from_slice(rest);
    plain
}

/// A line around a match.
fn shown(line: &[u8], start: usize, end: usize) -> String {
    let before = String::from_utf8_lossy(&line[..start]);
    let kept = before.chars().count().saturating_sub(SHOWN_BEFORE);
    let mut text: String = if kept > 0 { "… ".to_owned() } else { String::new() };
    text.extend(before.chars().skip(kept));
    let rest_end = line.len().min(end.saturating_add(4 * SHOWN_CHARS));
    text.push_str(&String::from_utf8_lossy(&line[start..rest_end]));
    let visible = |c: char| if c.is_control() && c != '\t' { ' ' } else { c };
    match text.chars().count() > SHOWN_CHARS {
        true => text.chars().take(SHOWN_CHARS - 2).chain(" …".chars()).map(visible).collect(),
        false => text.chars().map(visible).collect(),
    }
}

/// Reads an output until the end, the length of a step, or until the sink has enough. Answers what
/// was read last, and where to go on.
async fn scan(
    log: &mut Log,
    line: Option<u64>,
    sink: &mut (impl LineSink + Send),
) -> Result<(Slice, Scan, bool)> {
    let mut scan = Scan::at(line.unwrap_or(0), log.from);
    let mut read = 0;
    loop {
        let slice = log.read(READ_BYTES, false).await?;
        read += slice.bytes.len().max(1);
        let goes_on = scan.feed(&slice, sink);
        let is_end = slice.next >= slice.total || slice.next == log.from;
        log.from = slice.next;
        if is_end && goes_on {
            if scan.is_open {
                scan.close(slice.total, sink);
            }
            return Ok((slice, scan, true));
        }
        if !goes_on || read >= STEP_BYTES {
            return Ok((slice, scan, false));
        }
    }
}

fn check_place(from: Option<u64>, line: Option<u64>) -> Result<()> {
    match (from.unwrap_or(0), line) {
        (0, None | Some(0)) | (_, Some(_)) => Ok(()),
        _ => {
            let text = "is needed with from: the number of the line that begins there";
            Err(Problem::field(Code::InvalidRequest, "line", text))
        }
    }
}

/// Shows where the lines of an output begin: with `Range` of `get_logs`, a client reads any of
/// them without the others.
#[utoipa::path(
    get, path = "/v1/executions/{execution_id}/logs/index", operation_id = "index_logs", tag = "executions",
    params(("execution_id" = String, Path, description = "The execution's id."), LogIndexParams),
    responses(
        (status = 200, body = LogIndex), (status = 421, body = ErrorBody), (status = 503, body = ErrorBody),
    )
)]
pub(crate) async fn index(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    Params(params): Params<LogIndexParams>,
) -> Result<Json<LogIndex>> {
    check_place(params.from, params.line)?;
    let mut log = Log::find(app, actor, &run, params.attempt, &params.stream).await?;
    log.from = params.from.unwrap_or(0);
    let mut marks = Marks::default();
    let (last, scan, is_all) = scan(&mut log, params.line, &mut marks).await?;
    // An open line is read again as a whole.
    let next = (!is_all).then_some(scan);
    Ok(Json(LogIndex {
        attempt: log.attempt(),
        total: last.total,
        omitted: last.omitted,
        is_final: last.is_final,
        lines: scan.line,
        marks: marks.marks,
        cuts: marks.cuts,
        next_from: next.map(|scan| scan.line_start),
        next_line: next.map(|scan| scan.line),
    }))
}

/// Searches an output, also the parts that a client has not read. Colours of terminals do not
/// count.
#[utoipa::path(
    get, path = "/v1/executions/{execution_id}/logs/search", operation_id = "search_logs", tag = "executions",
    params(("execution_id" = String, Path, description = "The execution's id."), LogSearchParams),
    responses(
        (status = 200, body = LogHits), (status = 421, body = ErrorBody), (status = 503, body = ErrorBody),
    )
)]
pub(crate) async fn search(
    State(app): State<App>,
    actor: Actor,
    Path(run): Path<String>,
    Params(params): Params<LogSearchParams>,
) -> Result<Json<LogHits>> {
    check_place(params.from, params.line)?;
    let pattern = pattern(&params)?;
    let limit = params.limit.unwrap_or(HITS_DEFAULT);
    if !(1..=HITS_MAX).contains(&limit) {
        let text = format!("must be 1 to {HITS_MAX}, not {limit}");
        return Err(Problem::field(Code::InvalidRequest, "limit", text));
    }
    let mut log = Log::find(app, actor, &run, params.attempt, &params.stream).await?;
    log.from = params.from.unwrap_or(0);
    let mut matches = Matches {
        pattern,
        limit,
        hits: Vec::new(),
        line: 0,
        position: 0,
        text: Vec::new(),
        has_matched: false,
    };
    let (last, scan, is_all) = scan(&mut log, params.line, &mut matches).await?;
    let next = (!is_all).then_some(scan);
    Ok(Json(LogHits {
        hits: matches.hits,
        scanned_until: next.map_or(last.total, |scan| scan.line_start),
        total: last.total,
        is_final: last.is_final,
        next_from: next.map(|scan| scan.line_start),
        next_line: next.map(|scan| scan.line),
    }))
}

fn pattern(params: &LogSearchParams) -> Result<Regex> {
    let wrong = |text: String| Problem::field(Code::InvalidRequest, "q", text);
    if params.q.is_empty() || params.q.len() > QUERY_BYTES_MAX {
        return Err(wrong(format!("must have 1 to {QUERY_BYTES_MAX} bytes")));
    }
    let text = match params.regex.unwrap_or(false) {
        true => params.q.clone(),
        false => regex::escape(&params.q),
    };
    let text = if params.word.unwrap_or(false) { format!(r"\b(?:{text})\b") } else { text };
    RegexBuilder::new(&text)
        .case_insensitive(!params.case.unwrap_or(false))
        .size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|error| wrong(format!("is no regular expression: {error}")))
}

#[cfg(test)]
#[path = "log_lines/tests.rs"]
mod tests;
