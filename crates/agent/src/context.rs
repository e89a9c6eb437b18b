//! The context of a run that every job gets: the same facts as environment variables, headers or
//! session variables. `docs/job-context.md` prints the table.

use domain::action::Assignment;

/// One fact about a run, with its names for commands, HTTP and SQL.
pub struct Fact {
    /// The environment variable of an external command.
    pub variable: &'static str,
    /// The header of an HTTP request.
    pub header: &'static str,
    /// The session variable of a database.
    pub setting: &'static str,
    /// The description in the docs.
    pub meaning: &'static str,
    /// Its value.
    pub value: fn(&Assignment) -> String,
}

/// Every fact.
pub const FACTS: &[Fact] = &[
    Fact {
        variable: "PUNCTUAL_JOB_UUID",
        header: "Punctual-Job",
        setting: "punctual.job_uuid",
        meaning: "the job's id",
        value: |assignment| assignment.job.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_JOB_NAME",
        header: "Punctual-Job-Name",
        setting: "punctual.job_name",
        meaning: "the job's name",
        value: |assignment| assignment.job_name.clone(),
    },
    Fact {
        variable: "PUNCTUAL_RUN",
        header: "Punctual-Run",
        setting: "punctual.job_run_uuid",
        meaning: "the run's id, the same for every attempt",
        value: |assignment| assignment.run.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_ATTEMPT",
        header: "Punctual-Attempt",
        setting: "punctual.attempt",
        meaning: "the number of the attempt from 1, including lost ones",
        value: |assignment| assignment.attempt.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_FENCE",
        header: "Punctual-Fence",
        setting: "punctual.fence",
        meaning: "the fencing token, which grows with every start: reject a smaller one than you have seen",
        value: |assignment| assignment.fence.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_SCHEDULED_FOR",
        header: "Punctual-Scheduled-For",
        setting: "punctual.scheduled_for",
        meaning: "the scheduled time of the run, in UTC",
        value: |assignment| assignment.scheduled_for.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_DEADLINE",
        header: "Punctual-Deadline",
        setting: "punctual.deadline",
        meaning: "the deadline of the attempt, in UTC",
        value: |assignment| assignment.deadline.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_SHARD",
        header: "Punctual-Shard",
        setting: "punctual.shard",
        meaning: "the name of the shard; empty if there is none",
        value: |assignment| assignment.shard.clone(),
    },
];

/// The trace that the run belongs to, in the form of the `traceparent` header: the trace of the
/// client that submitted the run, if it named one, or one derived from the ids. Every attempt of a
/// run is a span of the same trace, under an id of its own.
pub fn traceparent(assignment: &Assignment) -> String {
    let given = assignment.parameters.get("traceparent").and_then(|value| value.as_str());
    let span = assignment.fence.max(1);
    match given.and_then(trace_of) {
        Some(Trace { id, flags, .. }) => format!("00-{id:032x}-{span:016x}-{flags:02x}"),
        None => format!("00-{}-{span:016x}-01", assignment.run.0.simple()),
    }
}

/// A trace that a run belongs to, as a `traceparent` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The trace.
    pub id: u128,
    /// The span that asked for the run.
    pub parent: u64,
    /// The trace flags: the lowest bit is set if the caller records the trace.
    pub flags: u8,
}

/// Parses a `traceparent` of version 00; none when it is not one.
pub fn trace_of(traceparent: &str) -> Option<Trace> {
    let mut parts = traceparent.split('-');
    let (version, trace, parent, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let valid = version == "00"
        && is_hex(trace, 32)
        && is_hex(parent, 16)
        && is_hex(flags, 2)
        && parts.next().is_none();
    if !valid {
        return None;
    }
    let id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
    let parent = u64::from_str_radix(parent, 16).ok().filter(|parent| *parent != 0)?;
    Some(Trace { id, parent, flags: u8::from_str_radix(flags, 16).ok()? })
}

/// The `traceparent` among the parameters of a run, which are a JSON object; none when it is not
/// one.
pub fn traceparent_in(parameters: &str) -> Option<String> {
    // Most runs have none, and parameters can be long.
    if !parameters.contains("traceparent") {
        return None;
    }
    let parameters: serde_json::Value = serde_json::from_str(parameters).ok()?;
    let text = parameters.get("traceparent")?.as_str()?;
    trace_of(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn a_traceparent_is_read_strictly() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let good = format!("00-{trace}-00f067aa0ba902b7-01");
        let id = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
        let read = Trace { id, parent: 0x00f0_67aa_0ba9_02b7, flags: 1 };
        assert_eq!(trace_of(&good), Some(read));
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        ] {
            assert_eq!(trace_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_documented_table_is_the_one_in_force() {
        let mut table = String::from(
            "| what it is | environment variable | header | session variable |\n|---|---|---|---|\n",
        );
        for Fact { variable, header, setting, meaning, .. } in FACTS {
            writeln!(table, "| {meaning} | `{variable}` | `{header}` | `{setting}` |").unwrap();
        }
        let page = include_str!("../../../docs/job-context.md");
        assert!(page.contains(&table), "docs/job-context.md must contain:\n\n{table}");
    }
}
