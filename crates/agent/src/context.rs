//! What a job is told about its run, whatever it is: the same facts as environment variables,
//! headers or session variables. `docs/job-context.md` prints the table.

use domain::action::Assignment;

/// One fact about a run, under its names at the three doors.
pub struct Fact {
    /// The environment variable of an external command.
    pub variable: &'static str,
    /// The header of an HTTP request.
    pub header: &'static str,
    /// The session variable of a database.
    pub setting: &'static str,
    /// What it means.
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
        meaning: "1 for the first attempt, lost ones counted",
        value: |assignment| assignment.attempt.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_FENCE",
        header: "Punctual-Fence",
        setting: "punctual.fence",
        meaning: "grows with every grant: refuse what comes with a smaller one than you have seen",
        value: |assignment| assignment.fence.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_SCHEDULED_FOR",
        header: "Punctual-Scheduled-For",
        setting: "punctual.scheduled_for",
        meaning: "the time that the run stands for, in UTC",
        value: |assignment| assignment.scheduled_for.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_DEADLINE",
        header: "Punctual-Deadline",
        setting: "punctual.deadline",
        meaning: "when the attempt is stopped if it has not ended, in UTC",
        value: |assignment| assignment.deadline.to_string(),
    },
    Fact {
        variable: "PUNCTUAL_SHARD",
        header: "Punctual-Shard",
        setting: "punctual.shard",
        meaning: "the slice of the data to work on; empty when there is one only",
        value: |assignment| assignment.shard.clone(),
    },
];

/// The trace that the run belongs to, in the form of the `traceparent` header: made from the ids,
/// so that every attempt of a run is part of the same trace.
pub fn traceparent(assignment: &Assignment) -> String {
    let trace = assignment.run.0.simple();
    format!("00-{trace}-{:016x}-01", assignment.fence.max(1))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

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
