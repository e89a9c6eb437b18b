//! The tables of the schema `sys`, as data. Columns of the catalog that the scheduler began with
//! come first, in milliseconds where it says so; ours come after them.

use query::{Field, Keys, Kind, Table};

macro_rules! fields {
    ($($name:ident $kind:ident $keys:ident $comment:literal;)*) => {
        &[$(Field {
            name: stringify!($name),
            kind: Kind::$kind,
            keys: Keys::$keys,
            comment: $comment,
        },)*]
    };
}

macro_rules! tables {
    ($($name:ident $comment:literal $([$($order:ident)*])? { $($fields:tt)* })*) => {
        /// Every table, by name.
        pub const TABLES: &[Table] = &[$(Table {
            schema: "sys",
            name: stringify!($name),
            comment: $comment,
            fields: fields! { $($fields)* },
            orders: &[$($(stringify!($order)),*)?],
            arguments: 0,
        },)*];
    };
}

tables! {
    jobs "A row for each job that you see." {
        job_uuid Uuid Equal "The job's identity.";
        job_name Text Equal "Its name, unique in the tenant.";
        description Text None "For people.";
        job_class Text None "Where it may run: LOCAL_SAFE, LEADER_ONLY or QUORUM_REQUIRED; nothing means LOCAL_SAFE.";
        job_type Text None "What it does: SQL, PROCEDURE, EXTERNAL, HTTP, BACKUP or NOOP.";
        job_sql Text None "The statements of an SQL job.";
        procedure_uuid Uuid None "Nothing: procedures have names, see procedure_name.";
        external_command Text None "The program of an external job.";
        schedule_kind Text None "CRON, AT, EVERY, MANUAL or AFTER_DEPENDENCIES.";
        cron_expression Text None "The expression of a CRON schedule.";
        interval_seconds Int None "The interval of an EVERY schedule.";
        starts_at Int None "The first time of EVERY, or the time of AT, in milliseconds since 1970.";
        ends_at Int None "The last time of EVERY, in milliseconds since 1970.";
        schedule_tz Text None "The time zone of a CRON schedule.";
        next_run_time Int None "The next time that is not planned yet, in milliseconds since 1970.";
        on_completion Text None "What becomes of an AT job when its run has ended: PRESERVE or DROP.";
        partition_strategy Text None "Nothing until jobs are spread over shards.";
        partition_shard_uuid Uuid None "Nothing until jobs are spread over shards.";
        partition_expression Text None "Nothing until jobs are spread over shards.";
        max_retries Int None "How often a failed attempt is tried again.";
        retry_backoff_seconds Int None "The delay before the second attempt.";
        timeout_seconds Int None "How long an attempt may take.";
        created_by_user_uuid Uuid None "Who made it: it runs with their rights.";
        run_as_role_uuid Uuid None "Nothing: roles of databases have names, see run_as.";
        created_at Int None "When it was made, in milliseconds since 1970.";
        state Text None "ENABLED, DISABLED, PAUSED, or COMPLETED for an AT job whose run has ended.";
        schedule_type Text None "RECURRING or ONE_TIME.";
        version Int None "Grows with every change.";
        updated_at Time None "When it was last changed.";
        created_time Time None "created_at as a timestamp.";
        next_run_at Time None "next_run_time as a timestamp.";
        run_as Text None "The role of the database that it acts as.";
        procedure_name Text None "The procedure of a PROCEDURE job.";
        database_name Text None "The database of an SQL or PROCEDURE job; nothing means the default one.";
        endpoint Text None "The address of an HTTP job.";
        action Json None "The whole action.";
        catch_up Text None "What becomes of occurrences that nobody could run: NONE, LAST or ALL.";
        max_catch_up Int None "The most occurrences that catch_up ALL runs.";
        start_deadline_seconds Int None "A run that cannot start within this time is missed.";
        overlap Text None "ALLOW, SKIP, QUEUE or CANCEL_PREVIOUS.";
        concurrency Int None "How many runs may be active before overlap is asked.";
        jitter_seconds Int None "Starts are spread over this much time.";
        priority Int None "0 to 9, higher is more urgent.";
        max_backoff_seconds Int None "The longest delay between attempts.";
        grace_period_seconds Int None "How long a cancelled attempt may take to end by itself.";
        on_lost Text None "RETRY or FAIL, when an agent is lost.";
        tags Text None "Words to find it by, as an array.";
    }
    job_runs "A row for each attempt of a run, and one for a run that has none; the newest first." [started_at scheduled_time] {
        job_run_uuid Uuid Equal "The attempt's identity; of a first attempt, that of the run.";
        job_uuid Uuid Equal "The job.";
        assigned_node_uuid Uuid None "Where it runs or ran.";
        shard_uuid Uuid None "Nothing until jobs are spread over shards.";
        scheduled_time Int Range "The time that the run stands for, in milliseconds since 1970.";
        started_at Int Range "When the attempt began, in milliseconds since 1970.";
        completed_at Int None "When the attempt ended, in milliseconds since 1970.";
        state Text Equal "PENDING, RUNNING, COMPLETED, FAILED or CANCELLED; state_detail says more.";
        retry_count Int None "0 for the first attempt.";
        result_message Text None "What the attempt said.";
        rows_affected Int None "Rows that a statement changed.";
        result_data Bytes None "What the run produced.";
        error_code Int None "The number in the error: an exit code or an HTTP status.";
        job_name Text Equal "The job's name; nothing when the job is gone.";
        execution_uuid Uuid Equal "The run: the same for all of its attempts, and its id over REST.";
        state_detail Text Equal "PENDING, QUEUED, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, LOST, SKIPPED or MISSED.";
        reason Text None "Why the run ended so, as a word.";
        reason_message Text None "Why the run ended so, as a sentence.";
        error_name Text None "What went wrong, as a word.";
        origin Text Equal "Who asked for it: SCHEDULE, CATCH_UP, MANUAL, BACKFILL or DEPENDENCY.";
        attempt_number Int None "1 for the first attempt; 0 when none has begun.";
        is_last Bool None "Whether no later attempt of the run is known.";
        scheduled_for Time Range "scheduled_time as a timestamp.";
        started Time Range "started_at as a timestamp.";
        completed Time None "completed_at as a timestamp.";
        due_at Time None "When the run may start, or might have.";
        duration_ms Int None "How long the attempt took.";
        fence Int None "The fence of the attempt.";
        job_version Int None "The version of the job that asked for it.";
        occurrences Int None "How many times the row stands for; more than 1 for times that did not run.";
        coalesced Int None "How many missed times the run stands for besides its own.";
        dead_letter Bool None "Whether the run waits for somebody to look at it.";
        parameters Json None "Values for the action.";
        result Json None "What the run produced, as JSON.";
    }
}
