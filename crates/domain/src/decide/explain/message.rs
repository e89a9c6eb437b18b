//! Explains where a message stands: its place in line, the workspaces before it, and when a worker
//! probably gets it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Aspect, Line, Report, short};
use crate::id::RunId;

/// The states of a message that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// A worker can get it.
    Ready,
    /// Its time has not come.
    Delayed,
    /// A worker has it.
    Leased,
    /// It is behind an earlier message with its ordering key.
    Blocked,
}

impl MessageState {
    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            MessageState::Ready => "READY",
            MessageState::Delayed => "DELAYED",
            MessageState::Leased => "LEASED",
            MessageState::Blocked => "BLOCKED",
        }
    }
}

/// Facts about a message that has not ended, and about its queue.
#[derive(Clone, Debug)]
pub struct MessageFacts {
    /// The message.
    pub id: RunId,
    /// The name of its queue.
    pub queue: String,
    /// Its workspace.
    pub workspace: String,
    /// Its state.
    pub state: MessageState,
    /// When it became or becomes ready, or when its lease ends.
    pub at: Timestamp,
    /// When its time limit ends, once its worker has begun.
    pub deadline: Option<Timestamp>,
    /// The messages before it: of its workspace that are ready, or with its ordering key.
    pub ahead: u64,
    /// The ended attempts.
    pub attempts: u32,
    /// The workspace that was served last.
    pub served: String,
    /// How many messages it got in that turn.
    pub served_messages: u32,
    /// The ready messages of each workspace.
    pub ready: BTreeMap<String, u64>,
    /// How many messages a workspace gets in one round; one if it is not listed.
    pub weights: BTreeMap<String, u32>,
    /// Why workers get no message of the queue at all.
    pub is_paused: bool,
    /// Limits that are reached, in words.
    pub limits: Vec<String>,
    /// How many messages of the queue ended in a second lately; none if that is not known.
    pub rate: Option<f64>,
    /// The present.
    pub now: Timestamp,
}

/// The place of a message in line.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageLine {
    /// From 1: so many leases and it is its turn.
    pub place: u64,
    /// The workspaces that are served before its own.
    pub workspaces_before: Vec<String>,
    /// How long it probably waits, at the pace of the last messages.
    pub estimate: Option<SignedDuration>,
}

/// The place in line of a ready message. Workspaces take turns, each with as many messages as its
/// weight: first the one that was served last, if its turn is not over, then those after it.
pub fn message_line(facts: &MessageFacts) -> Option<MessageLine> {
    if facts.state != MessageState::Ready {
        return None;
    }
    let weight =
        |workspace: &str| u64::from(facts.weights.get(workspace).copied().unwrap_or(1).max(1));
    // The messages of its turn that a workspace got before.
    let begun = |workspace: &str| match u64::from(facts.served_messages) {
        served if workspace == facts.served && served < weight(workspace) => served,
        _ => 0,
    };
    // The turn of a workspace in a round.
    let turn = |workspace: &str| {
        let is_over = begun(workspace) == 0;
        (is_over && workspace <= facts.served.as_str(), is_over, workspace.to_owned())
    };
    let own = turn(&facts.workspace);
    let rounds = (facts.ahead + begun(&facts.workspace)) / weight(&facts.workspace);
    let mut workspaces_before = Vec::new();
    let mut before = facts.ahead;
    for (workspace, ready) in &facts.ready {
        if *workspace == facts.workspace || *ready == 0 {
            continue;
        }
        let is_before = turn(workspace) < own;
        let full = rounds + u64::from(is_before);
        let got = full.saturating_mul(weight(workspace)).saturating_sub(begun(workspace));
        before += got.min(*ready);
        if is_before {
            workspaces_before.push(workspace.clone());
        }
    }
    workspaces_before.sort_by_key(|workspace| turn(workspace));
    let place = before + 1;
    let pace = facts.rate.filter(|rate| *rate > 0.0 && !facts.is_paused);
    let seconds = pace.map(|rate| (place as f64 / rate).min(1e9));
    let estimate = seconds.map(|seconds| SignedDuration::from_millis((seconds * 1e3) as i64));
    Some(MessageLine { place, workspaces_before, estimate })
}

/// Position of a message, and its wait.
pub fn explain_message(facts: &MessageFacts) -> Report {
    let line = message_line(facts);
    let (queue, now) = (&facts.queue, facts.now);
    let left = |at: Timestamp| short(at.duration_since(now).max(SignedDuration::ZERO));
    let is_paused = facts.is_paused && facts.state == MessageState::Ready;
    let message = match (facts.state, &line) {
        _ if is_paused => format!("queue {queue:?} is paused: workers get no message of it"),
        (MessageState::Leased, _) => {
            format!("a worker has it; the lease ends in {} unless it is kept", left(facts.at))
        }
        (MessageState::Delayed, _) => format!("it becomes ready in {}", left(facts.at)),
        (MessageState::Blocked, _) => {
            format!("{} with its ordering key must end first", messages(facts.ahead))
        }
        (MessageState::Ready, Some(line)) if line.place == 1 => {
            format!("it is the next message of queue {queue:?}")
        }
        (MessageState::Ready, line) => {
            let before = line.as_ref().map_or(0, |line| line.place - 1);
            format!("{} of queue {queue:?} are leased before it", messages(before))
        }
    };
    let mut report = Report {
        at: Some(facts.at),
        verdict: if is_paused { "PAUSED" } else { facts.state.name() },
        message: message.clone(),
        cause: None,
        run: Some(facts.id),
        lines: Vec::new(),
        obstacles: Vec::new(),
        parts: Vec::new(),
        previous: None,
        next: None,
        skipped: Vec::new(),
    };
    let mut tell = |aspect, at, text: String| {
        let run = (aspect == Aspect::Verdict).then_some(facts.id);
        report.lines.push(Line { aspect, at, text, status: None, code: None, run });
    };
    tell(Aspect::Verdict, Some(facts.at), message);
    tell(Aspect::Job, None, format!("queue {queue:?}, workspace {:?}", facts.workspace));
    if let Some(line) = &line {
        tell(Aspect::State, None, format!("place {} in line", line.place));
        if facts.ahead > 0 {
            tell(
                Aspect::State,
                None,
                format!("{} of its workspace before it", messages(facts.ahead)),
            );
        }
        if !line.workspaces_before.is_empty() {
            let count = line.workspaces_before.len();
            let first: Vec<String> =
                line.workspaces_before.iter().take(10).map(|it| format!("{it:?}")).collect();
            let more = if count > first.len() { ", …" } else { "" };
            let text = format!("{count} workspaces before its own: {}{more}", first.join(", "));
            tell(Aspect::State, None, text);
        }
        let estimate = match (line.estimate, facts.rate) {
            (Some(time), Some(rate)) => {
                format!("in about {} at {rate:.1} messages a second", short(time))
            }
            _ => "no estimate: no message of the queue has ended lately".to_owned(),
        };
        tell(Aspect::Next, line.estimate.and_then(|time| now.checked_add(time).ok()), estimate);
    }
    if let Some(deadline) = facts.deadline {
        tell(Aspect::Now, Some(deadline), format!("its time limit ends in {}", left(deadline)));
    }
    if facts.attempts > 0 {
        tell(Aspect::Attempt, None, format!("{} attempts have ended", facts.attempts));
    }
    let mut obstacles = facts.limits.clone();
    if facts.is_paused {
        obstacles.insert(0, format!("queue {queue:?} is paused"));
    }
    for text in &obstacles {
        tell(Aspect::Waits, None, text.clone());
    }
    report.obstacles = obstacles;
    report
}

fn messages(count: u64) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(served: &str, workspace: &str, ahead: u64, ready: &[(&str, u64)]) -> MessageFacts {
        MessageFacts {
            id: RunId(uuid::Uuid::nil()),
            queue: "mail".into(),
            workspace: workspace.into(),
            state: MessageState::Ready,
            at: Timestamp::UNIX_EPOCH,
            deadline: None,
            ahead,
            attempts: 0,
            served: served.into(),
            served_messages: 1,
            ready: ready.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            weights: BTreeMap::from([("heavy".to_owned(), 3)]),
            is_paused: false,
            limits: Vec::new(),
            rate: Some(2.0),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn workspaces_take_turns_before_a_message() {
        let flood = [("a", 100_000), ("b", 1), ("c", 5)];
        for (served, workspace, ahead, ready, place, before) in [
            ("", "b", 0, &flood[..], 2, &["a"][..]),
            ("a", "b", 0, &flood, 1, &[]),
            ("b", "b", 0, &flood, 3, &["c", "a"]),
            // The third of its workspace: two rounds of the others, as far as they have messages.
            ("", "c", 2, &flood, 2 + 3 + 1 + 1, &["a", "b"]),
            ("", "a", 50_000, &flood, 50_000 + 1 + 5 + 1, &[]),
            // A weight of three: three messages in each round.
            ("", "z", 1, &[("heavy", 100), ("z", 2)], 1 + 6 + 1, &["heavy"]),
            ("", "heavy", 4, &[("heavy", 100), ("z", 9)], 4 + 1 + 1, &[]),
            // It got one of three in its turn: two more, and then the others.
            ("heavy", "z", 0, &[("heavy", 100), ("z", 2)], 2 + 1, &["heavy"]),
            ("heavy", "heavy", 1, &[("heavy", 100), ("z", 2)], 2, &[]),
            ("heavy", "heavy", 2, &[("heavy", 100), ("z", 2)], 2 + 1 + 1, &[]),
        ] {
            let line = message_line(&facts(served, workspace, ahead, ready)).unwrap();
            assert_eq!(line.place, place, "{served:?} {workspace} {ahead}");
            assert_eq!(line.workspaces_before, before, "{served:?} {workspace} {ahead}");
            let expected = SignedDuration::from_millis(place as i64 * 500);
            assert_eq!(line.estimate, Some(expected));
        }
    }

    #[test]
    fn a_message_says_what_it_waits_for() {
        let second = |n| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(n);
        let ready = facts("a", "b", 0, &[("b", 1)]);
        for (state, is_paused, verdict, message, obstacles) in [
            (MessageState::Ready, false, "READY", "it is the next message of queue \"mail\"", 0),
            (
                MessageState::Ready,
                true,
                "PAUSED",
                "queue \"mail\" is paused: workers get no message of it",
                1,
            ),
            (MessageState::Delayed, false, "DELAYED", "it becomes ready in 9.0 s", 0),
            (
                MessageState::Leased,
                false,
                "LEASED",
                "a worker has it; the lease ends in 9.0 s unless it is kept",
                0,
            ),
            (
                MessageState::Blocked,
                false,
                "BLOCKED",
                "0 messages with its ordering key must end first",
                0,
            ),
        ] {
            let at = second(9);
            let told = explain_message(&MessageFacts { state, is_paused, at, ..ready.clone() });
            assert_eq!((told.verdict, told.message.as_str()), (verdict, message));
            assert_eq!(told.obstacles.len(), obstacles, "{state:?}");
        }
    }
}
