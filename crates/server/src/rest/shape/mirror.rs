//! Words of the domain as the API spells and documents them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

macro_rules! mirror {
    ($(#[$doc:meta])* $name:ident = $domain:path { $($(#[$item_doc:meta])* $item:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "SCREAMING_SNAKE_CASE")]
        pub enum $name { $($(#[$item_doc])* $item,)* }

        impl From<$domain> for $name {
            fn from(value: $domain) -> Self {
                use $domain as Domain;
                match value { $(Domain::$item => $name::$item,)* }
            }
        }

        impl From<$name> for $domain {
            fn from(value: $name) -> Self {
                use $domain as Domain;
                match value { $($name::$item => Domain::$item,)* }
            }
        }
    };
}

mirror! {
    /// The policy for missed times.
    CatchUp = domain::schedule::CatchUpPolicy {
        /// They are skipped.
        None,
        /// One run stands for all of them.
        Last,
        /// Each runs, oldest first.
        All,
    }
}

mirror! {
    /// Whether a job runs on the days of a calendar.
    CalendarMode = domain::calendar::CalendarMode {
        /// It does not run on them.
        Exclude,
        /// It runs on no other days.
        Include,
    }
}

mirror! {
    /// The policy for a time on a day on which the job does not run.
    Shift = domain::calendar::Shift {
        /// It is skipped.
        Skip,
        /// It moves to the next day on which the job runs, at the same local time.
        Next,
        /// It moves to the last day before on which the job runs, at the same local time.
        Previous,
    }
}

mirror! {
    /// Where and how a job is executed.
    JobClass = domain::cluster::Class {
        /// By any node that executes.
        LocalSafe,
        /// By the node that leads.
        LeaderOnly,
        /// By any node, when a majority of the schedulers has acknowledged the run.
        QuorumRequired,
    }
}

mirror! {
    /// The decision about a run that is HELD because its node was lost.
    LostAnswer = domain::job::LostAnswer {
        /// It is attempted again.
        Retry,
        /// It ends as FAILED.
        Fail,
        /// It ends as COMPLETED.
        Complete,
    }
}

mirror! {
    /// How an upstream job must have ended.
    DependsOn = domain::job::DependsOn {
        /// It completed.
        Success,
        /// In any way.
        Completion,
        /// It failed.
        Failure,
    }
}

mirror! {
    /// The policy for a local time that a clock change removes.
    GapRule = domain::schedule::GapRule {
        /// It is skipped.
        Skip,
        /// It runs when the gap ends.
        ShiftAfter,
        /// It runs as much later as clocks jump.
        ShiftByOffset,
    }
}

mirror! {
    /// The policy for a local time that a clock change repeats.
    OverlapRule = domain::schedule::OverlapRule {
        /// The first pass runs.
        First,
        /// The second pass runs.
        Second,
        /// Both passes run.
        Both,
    }
}

mirror! {
    /// The origin of a run.
    Origin = domain::run::Origin {
        /// The schedule, in time.
        Schedule,
        /// The schedule, after an outage.
        CatchUp,
        /// A person or a program.
        Manual,
        /// A person, for times of the past.
        Backfill,
        /// The end of another job.
        Dependency,
        /// Another run of the job, which was split.
        Part,
        /// A message that was sent to a queue.
        Message,
        /// A DAG run, for one of its steps.
        Step,
    }
}

/// The present activity of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobStatus {
    /// It runs when it is due.
    Active,
    /// Held for a while.
    Paused,
    /// It does not run until it is enabled.
    Disabled,
    /// A one-time job whose run has ended.
    Completed,
    /// It was removed; its history may still exist.
    Deleted,
}

impl From<domain::job::JobState> for JobStatus {
    fn from(state: domain::job::JobState) -> Self {
        use domain::job::JobState;
        match state {
            JobState::Enabled => JobStatus::Active,
            JobState::Paused => JobStatus::Paused,
            JobState::Disabled => JobStatus::Disabled,
            JobState::Completed => JobStatus::Completed,
            JobState::Deleted => JobStatus::Deleted,
        }
    }
}

mirror! {
    /// A tenant's class of service: its share when tenants compete for slots.
    Tier = domain::fairness::Tier {
        /// A quarter of the standard share.
        Free,
        /// The share of a tenant without a tier.
        Standard,
        /// Four times the standard share.
        Premium,
    }
}

mirror! {
    /// Which outcomes of the tasks before it let a task run.
    TriggerRule = domain::dag::TriggerRule {
        /// All succeeded.
        AllSuccess,
        /// All ended, in any way.
        AllDone,
        /// At least one succeeded.
        OneSuccess,
        /// At least one failed.
        OneFailed,
        /// All ended, and none failed.
        NoneFailed,
        /// All ended, and none was skipped.
        NoneSkipped,
    }
}

mirror! {
    /// The policy for the other tasks of a DAG run when a task fails.
    OnTaskFailure = domain::dag::OnStepFailure {
        /// Tasks that do not depend on it go on.
        Continue,
        /// Tasks that have not started are skipped, and those that execute are cancelled.
        Stop,
        /// No further task starts until a user resumes or cancels the run.
        Hold,
    }
}

mirror! {
    /// The answer to an approval.
    ApprovalAnswer = domain::dag::ApprovalAnswer {
        /// The task completes.
        Approve,
        /// The task fails.
        Reject,
    }
}

mirror! {
    /// The version of the DAG that a re-run follows.
    RerunVersion = domain::dag::rerun::RerunVersion {
        /// That of the run that is repeated.
        Same,
        /// The present one. Tasks match by name; one with another definition runs again.
        Latest,
    }
}

mirror! {
    /// How a task ended.
    TaskOutcome = domain::run::Outcome {
        /// It did its work.
        Completed,
        /// It failed.
        Failed,
        /// It was cancelled.
        Cancelled,
        /// It took longer than it may.
        Timeout,
        /// It did not run, as its rules say.
        Skipped,
        /// It did not run in time.
        Missed,
    }
}
