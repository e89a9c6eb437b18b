//! The tables of the schema `sys`, as data. Columns of the catalog that the scheduler began with
//! come first, in milliseconds where that catalog has them so; ours come after them.

use std::sync::LazyLock;

use domain::job::{JobField, Policy, PolicyKind, policies};
use query::{Field, Keys, Kind, Table};

/// Every table.
pub static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let mut tables = FIXED.to_vec();
    for jobs in tables.iter_mut().filter(|table| table.name == "jobs") {
        let simple = policy_columns().map(|(name, field, policy)| Field {
            name,
            kind: match policy.kind {
                PolicyKind::Word(_) | PolicyKind::Text | PolicyKind::List => Kind::Text,
                PolicyKind::Duration | PolicyKind::Count(_) => Kind::Int,
                PolicyKind::Flag => Kind::Bool,
            },
            keys: Keys::None,
            comment: comment(field, policy).leak(),
        });
        let fields: Vec<Field> = jobs.fields.iter().copied().chain(simple).collect();
        jobs.fields = fields.leak();
    }
    tables
});

/// The columns of `sys.jobs` that the table of job fields adds to those below.
pub(super) fn policy_columns()
-> impl Iterator<Item = (&'static str, &'static JobField, &'static Policy)> {
    let is_fixed = |name: &str| {
        let jobs = FIXED.iter().find(|table| table.name == "jobs");
        jobs.is_some_and(|jobs| jobs.fields.iter().any(|field| field.name == name))
    };
    let column =
        |(field, policy): (&'static JobField, _)| Some((field.columns().next()?, field, policy));
    policies().filter_map(column).filter(move |(name, ..)| !is_fixed(name))
}

/// `The policy for missed times: NONE, LAST or ALL.`
fn comment(field: &JobField, policy: &Policy) -> String {
    let about = field.about.replace('`', "").replace('\n', " ");
    match policy.kind {
        PolicyKind::Word(kind) => match kind.words.split_last() {
            Some((last, most)) => format!("{about}: {} or {last}.", most.join(", ")),
            None => format!("{about}."),
        },
        PolicyKind::List => format!("{about}, as an array."),
        _ => format!("{about}."),
    }
}

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
        const FIXED: &[Table] = &[$(Table {
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
        job_class Text None "Where it may run: LOCAL_SAFE, LEADER_ONLY or QUORUM_REQUIRED.";
        job_type Text None "Its kind: SQL, PROCEDURE, EXTERNAL, ARTIFACT, HTTP, QUEUE, BACKUP or NOOP.";
        job_sql Text None "The statements of an SQL job.";
        procedure_uuid Uuid None "The identity of the procedure, made of its database and its name; see procedure_name.";
        external_command Text None "The program of an external job.";
        schedule_kind Text None "CRON, AT, EVERY, MANUAL or AFTER_DEPENDENCIES.";
        cron_expression Text None "The expression of a CRON schedule.";
        interval_seconds Int None "The interval of an EVERY schedule.";
        starts_at Int None "The first time of EVERY, or the time of AT, in milliseconds since 1970.";
        ends_at Int None "The last time of EVERY, in milliseconds since 1970.";
        schedule_tz Text None "The time zone of a CRON schedule.";
        next_run_time Int None "When it is due next, in milliseconds since 1970.";
        on_completion Text None "The policy for an AT job when its run has ended: PRESERVE or DROP.";
        partition_strategy Text None "ALL_SHARDS, SINGLE_SHARD, SHARD_SET or DYNAMIC; nothing when it runs once.";
        partition_shard_uuid Uuid None "The shard of SINGLE_SHARD.";
        partition_expression Text None "The expression of DYNAMIC.";
        max_retries Int None "How often a failed attempt is tried again.";
        retry_backoff_seconds Int None "The delay before the second attempt.";
        timeout_seconds Int None "How long an attempt may take.";
        created_by_user_uuid Uuid None "The user who created it: it runs with their rights.";
        run_as_role_uuid Uuid None "The role of the tenant that allows run_as.";
        created_at Int None "When it was made, in milliseconds since 1970.";
        state Text None "ENABLED, DISABLED or PAUSED. An AT job whose run has ended is DISABLED; see state_detail.";
        schedule_type Text None "RECURRING or ONE_TIME.";
        version Int None "Grows with every change.";
        updated_at Int None "When it was last changed, in milliseconds since 1970.";
        created_time Time None "created_at as a timestamp.";
        next_run_at Time None "next_run_time as a timestamp.";
        procedure_name Text None "The procedure of a PROCEDURE job.";
        database_name Text None "The database of an SQL or PROCEDURE job; nothing means the default one.";
        endpoint Text None "The address of an HTTP job.";
        action Json None "The whole action.";
        max_backoff_seconds Int None "The longest delay between attempts.";
        run_on Text None "The labels of the nodes that may execute it, as an array.";
        partition_shards Text None "The shards of SINGLE_SHARD and SHARD_SET as they are named, as an array.";
        parameters Json None "Values for its runs.";
        state_detail Text None "ENABLED, DISABLED, PAUSED, or COMPLETED for an AT job whose run has ended.";
        updated_time Time None "updated_at as a timestamp.";
        last_run_time Int None "The time of its last run that has ended, in milliseconds since 1970.";
        last_run_at Time None "last_run_time as a timestamp.";
        last_status Text None "How that run ended.";
        calendars Text None "The calendars that it includes or excludes, as an array.";
        pool_name Text None "The pool in which its runs take places.";
        pool_weight Int None "How much of the pool a run takes.";
        parameter_rules Json None "The parameters that its runs accept.";
        artifact_id Text None "The artifact of an ARTIFACT job.";
        entrypoint Text None "What an ARTIFACT job executes of it.";
    }
    job_runs "A row for each attempt of a run, and one for a run that has none; the newest first. A run on several shards has the rows of its parts; the run as a whole is in sys.ledger." [started_at scheduled_time] {
        job_run_uuid Uuid Equal "The attempt's identity; of a first attempt, that of the run.";
        job_uuid Uuid Equal "The job.";
        assigned_node_uuid Uuid None "Where it runs or ran.";
        shard_uuid Uuid None "The shard that it works on, if it is a part of a run.";
        scheduled_time Int Range "The time that the run stands for, in milliseconds since 1970.";
        started_at Int Range "When the attempt began, in milliseconds since 1970.";
        completed_at Int None "When the attempt ended, in milliseconds since 1970.";
        state Text Equal "PENDING, RUNNING, COMPLETED, FAILED or CANCELLED; state_detail says more.";
        retry_count Int None "0 for the first attempt.";
        result_message Text None "The message of the attempt.";
        rows_affected Int None "Rows that a statement changed.";
        result_data Bytes None "The result of the run.";
        error_code Int None "The error, as a number: an exit code, an HTTP status, an SQLSTATE, or a number of error_name.";
        job_name Text Equal "The name that the job had when the run was recorded; nothing when nothing is left of the job.";
        execution_uuid Uuid Equal "The run: the same for all of its attempts, and its id over REST.";
        state_detail Text Equal "PENDING, QUEUED, HELD, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, LOST, SKIPPED or MISSED.";
        reason Text None "Why the run ended so, as a word.";
        reason_message Text None "Why the run ended so, as a sentence.";
        error_name Text None "The error, as a name.";
        origin Text Equal "The origin: SCHEDULE, CATCH_UP, MANUAL, BACKFILL, DEPENDENCY or PART.";
        attempt_number Int None "1 for the first attempt; 0 when none has begun.";
        is_last Bool None "Whether no later attempt of the run is known.";
        scheduled_for Time Range "scheduled_time as a timestamp.";
        started Time Range "started_at as a timestamp.";
        completed Time None "completed_at as a timestamp.";
        due_at Int None "When the run may start, or might have, in milliseconds since 1970.";
        duration_ms Int None "How long the attempt took.";
        fence Int None "The fence of the attempt.";
        job_version Int None "The version of the job that asked for it.";
        occurrences Int None "How many times the row stands for; more than 1 for times that did not run.";
        coalesced Int None "How many missed times the run stands for besides its own.";
        dead_letter Bool None "Whether the run is a dead letter that is not acknowledged.";
        parameters Json None "Values for the action.";
        result Json None "The result of the run, as JSON.";
        due Time None "due_at as a timestamp.";
        queued_at Int None "When the run was recorded, and with that queued, in milliseconds since 1970.";
        queued Time None "queued_at as a timestamp.";
        exactly_once Bool None "Whether its statements were committed together with the record that they were.";
        backfill_concurrency Int None "How many backfilled runs of the job may be at work at a time, if the backfill says so.";
        parent_id Uuid None "The run that it is a part of.";
        requested_by_user_uuid Uuid None "The user who asked for the run; nothing for what the schedule or another run asked for.";
        requested_by Text None "The name of that user; their id when they were removed.";
        waiting_reason Text None "The reason that a run has not started.";
    }
    job_run_acks "A row for each scheduler that has acknowledged a run which needs a quorum. Without a job or a run in the question, those of jobs of the class QUORUM_REQUIRED." {
        execution_uuid Uuid Equal "The run.";
        job_uuid Uuid Equal "The job.";
        job_name Text Equal "The job's name; nothing when the job is gone.";
        node_uuid Uuid None "The scheduler.";
        epoch Int None "The epoch of the leader at that time: only those of the present one count.";
        acknowledged_at Time None "When it was given.";
    }
    job_dependencies "A row for each job that waits for another." {
        job_uuid Uuid Equal "The job that waits.";
        depends_on_job_uuid Uuid None "The job that it waits for.";
        job_name Text Equal "The name of the job that waits.";
        depends_on_job_name Text None "The name of the other one; nothing when you do not see it.";
        condition Text None "How the other one must have ended: SUCCESS, COMPLETION or FAILURE.";
        dependency_rule Text None "Whether the job waits for ALL of its dependencies or for ANY of them.";
    }
    job_secrets "The names of secrets. Values cannot be read." {
        job_uuid Uuid None "The job that sees it; nothing for a secret of the tenant.";
        secret_key Text None "Its name, as in ${secrets.NAME}.";
        secret_value Bytes None "Always nothing.";
        scope Text None "The scope: job or tenant.";
        version Int None "Grows with every change.";
        updated_at Time None "When it was last changed.";
        updated_by Text None "The user who changed it last.";
    }
    users "The users of the tenant. It takes the privilege ADMINISTER TENANT to see them." {
        user_uuid Uuid None "The user's identity.";
        user_name Text None "Their name, unique in the tenant.";
        disabled Bool None "Whether they can do nothing for now.";
        has_password Bool None "Whether they can come in with a password.";
        version Int None "Grows with every change.";
        created_at Time None "When they were made.";
        updated_at Time None "When they were last changed.";
    }
    roles "The roles of the tenant. It takes the privilege ADMINISTER TENANT to see them." {
        role_uuid Uuid None "The role's identity.";
        role_name Text None "Its name, unique in the tenant.";
        description Text None "For people.";
        run_as Bool None "Whether jobs of its members may act as the role of this name on a database.";
        version Int None "Grows with every change.";
        created_at Time None "When it was made.";
        updated_at Time None "When it was last changed.";
    }
    grants "The grants of users and roles. It takes the privilege ADMINISTER TENANT to see it." {
        grant_uuid Uuid None "The grant's identity.";
        grantee_uuid Uuid None "The user or role that has it.";
        grantee_name Text None "Their name.";
        privilege Text None "The privilege, if it is one: CREATE JOB, USE ON DATABASE sales.";
        role_uuid Uuid None "The role, if it is one.";
        role_name Text None "The role's name.";
    }
    tenants "The tenants. It takes the privilege ADMINISTER CLUSTER to see others than your own." {
        tenant_uuid Uuid None "The tenant's identity.";
        tenant_name Text None "Its name, which is the name of its database for clients of PostgreSQL.";
        tier Text None "Its class of service: FREE, STANDARD or PREMIUM.";
        max_jobs Int None "The most jobs that it may have.";
        max_concurrent Int None "The most runs that it may have at work at a time.";
        requests_per_second Int None "The most requests a second of each of its keys.";
        external_jobs Bool None "Whether its administrators may have commands run, and let others do so.";
        job_defaults Json None "Defaults of its jobs: timeout, daylight saving time and retention.";
        version Int None "Grows with every change.";
        created_at Time None "When it was made.";
        updated_at Time None "When it was last changed.";
    }
    settings "The settings of the cluster. It takes the privilege ADMINISTER CLUSTER to see it." {
        name Text None "The setting.";
        value Json None "Its value.";
        version Int None "Grows with every change.";
        updated_at Time None "When it was last changed.";
    }
    databases "Where SQL jobs work. It takes the privilege ADMINISTER TENANT to see it." {
        database_uuid Uuid None "The database's identity.";
        database_name Text None "Its name.";
        url Text None "Where it is, without its password.";
        description Text None "For people.";
        version Int None "Grows with every change.";
        created_at Time None "When it was made.";
        updated_at Time None "When it was last changed.";
    }
    dags "A row for each DAG that you see." {
        dag_uuid Uuid None "The DAG's identity.";
        dag_name Text None "Its name, unique among the DAGs, queues and jobs of the tenant.";
        description Text None "For people.";
        state Text None "ENABLED, DISABLED or PAUSED.";
        schedule_kind Text None "CRON, AT, EVERY, MANUAL or AFTER_DEPENDENCIES.";
        cron_expression Text None "The expression of a CRON schedule.";
        schedule_tz Text None "The time zone of a CRON schedule.";
        next_run_time Time None "When it is due next.";
        steps Int None "The number of its steps.";
        max_parallel Int None "The maximum number of steps of a run that execute at the same time.";
        on_failure Text None "The policy for the other steps when a step fails: CONTINUE, STOP or HOLD.";
        queue Text None "The queue of steps that workers execute.";
        config Json None "Values for its runs.";
        version Int None "Grows with every change.";
        created_by_user_uuid Uuid None "The user who made it: it runs with their rights.";
        created_at Time None "When it was made.";
        updated_at Time None "When it was last changed.";
    }
    dag_runs "A row for each run of a DAG that you see, newest first." {
        dag_run_uuid Uuid Equal "The run's identity.";
        dag_uuid Uuid None "Its DAG.";
        dag_name Text Equal "The DAG's name.";
        dag_version Int None "The version of the DAG that it follows.";
        state Text None "PENDING, QUEUED, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, SKIPPED or MISSED.";
        reason Text None "Why it ended so, as a word.";
        reason_text Text None "Why it ended so, as a sentence.";
        scheduled_time Time None "The time that it stands for.";
        started_at Time None "When it began.";
        completed_at Time None "When it ended.";
        config Json None "The values that were given with it.";
        control Text None "RUNNING, HELD, STOPPING or CANCELLING.";
        rerun_of Uuid None "The run that it repeats.";
        steps Int None "All steps; a step with items counts as one.";
        steps_pending Int None "Steps that wait for those before them.";
        steps_open Int None "Steps that execute or can start.";
        steps_completed Int None "Completed steps.";
        steps_failed Int None "Failed, timed out and cancelled steps.";
        steps_skipped Int None "Skipped steps.";
        expected_end Time None "When it is expected to end, by the durations of earlier runs.";
    }
    dag_steps "A row for each step of a DAG run and each item of a step, pending ones too. Name the run; otherwise those of the newest runs come first." {
        dag_run_uuid Uuid Equal "The DAG run.";
        dag_name Text Equal "The DAG's name.";
        step_name Text None "The name of the step.";
        item Int None "The position of the item, from 0; nothing for the step as a whole.";
        kind Text None "Its kind: HTTP, SQL, MESSAGE, JOB, APPROVAL …";
        state Text None "PENDING, READY, RUNNING, or the outcome.";
        reason Text None "Why it was skipped, failed or was marked, as a word.";
        reason_text Text None "The same as a sentence.";
        items Int None "The number of its items, if it was expanded.";
        job_run_uuid Uuid None "Its run.";
        attempts Int None "How many attempts have begun.";
        decided_by Text None "The step whose end decided it.";
        decided_at Time None "When it was decided.";
        started_at Time None "When its last attempt began.";
        completed_at Time None "When it ended.";
        error_message Text None "The error, as a sentence.";
        result Json None "Its result.";
        is_adopted Bool None "Whether it was adopted from the run that this one repeats.";
    }
    artifacts "A row for each version of an artifact of the tenant." {
        artifact_name Text None "The name of the artifact.";
        version Int None "The number of the version, from 1.";
        artifact_id Text None "What jobs refer to it by: name@version.";
        digest Text None "The SHA-256 of the archive, in hex.";
        bytes Int None "The size of the archive.";
        unpacked_bytes Int None "The size of the files in it.";
        entries Int None "How many files and folders are in it.";
        labels Json None "What the client that pushed it wants to remember.";
        created_at Time None "When it was pushed.";
        created_by Text None "The user who pushed it.";
    }
    queues "A row for each queue that you see." {
        queue_uuid Uuid None "The queue's identity.";
        queue_name Text None "Its name, unique among the queues and jobs of the tenant.";
        description Text None "For people.";
        state Text None "ACTIVE or PAUSED.";
        ready Int None "Messages that workers can get.";
        delayed Int None "Messages whose time has not come.";
        leased Int None "Messages that workers have.";
        blocked Int None "Messages behind an earlier one with their ordering key.";
        oldest_ready_at Time None "Since when the oldest ready message can be had.";
        lease_seconds Int None "How long a lease lasts if the worker does not ask for another time.";
        concurrency Int None "The most messages that workers have at the same time.";
        workspace_concurrency Int None "The same for one workspace.";
        rate_per_second Float None "The most messages that workers get in a second.";
        max_depth Int None "The most messages that have not ended.";
        max_attempts Int None "Attempts of a message in all.";
        version Int None "Grows with every change.";
        created_at Time None "When it was made.";
        updated_at Time None "When it was last changed.";
    }
    messages "A row for each message that has not ended, of queues that you may consume. Ended ones are in sys.job_runs." {
        message_uuid Uuid None "The message's identity; its run has the same.";
        queue_uuid Uuid None "Its queue.";
        queue_name Text None "The queue's name.";
        workspace Text None "Its workspace; empty for messages that name none.";
        state Text None "PENDING (delayed), QUEUED (ready or blocked) or RUNNING (leased).";
        attempts Int None "How many attempts have ended.";
        sent_at Time None "When it was sent, or is to be processed.";
        due_at Time None "When it can be had.";
        leased_at Time None "When its worker got it.";
        ordering_key Text None "Workers have one message of a key at a time.";
        deduplication_key Text None "A second message with the key is not recorded.";
        payload Json None "The payload.";
    }
    nodes "The nodes of the cluster. It takes the privilege ADMINISTER TENANT to see them." {
        node_uuid Uuid None "The node's identity; a new one after every start.";
        node_name Text None "Its name.";
        address Text None "Where others reach it.";
        version Text None "The release that it runs.";
        roles Text None "Its roles, as an array.";
        state Text None "ACTIVE, DRAINING, DOWN when it fell silent, or GONE.";
        running_jobs Int None "How many runs it holds.";
        joined_at Time None "When it joined.";
        last_heartbeat Time None "When it was last heard of.";
        lease_until Time None "When its lease ends unless it is heard of again.";
        leads_epoch Int None "The epoch in which it leads; nothing for all others.";
        capacity Int None "How many runs it executes at the same time, calls of endpoints not counted.";
        labels Text None "Its labels, as an array of label=value.";
        settings_hash Text None "A hash of its settings; the same on all nodes, or they drift apart.";
        kind Text None "SERVER, or AGENT for one that has no store and executes runs elsewhere.";
        http_capacity Int None "How many endpoints it calls at the same time.";
    }
    shards "Slices of data that jobs are spread over. It takes the privilege ADMINISTER TENANT to see them." {
        shard_uuid Uuid None "The shard's identity.";
        shard_name Text None "Its name.";
        owner_node_uuid Uuid None "The node that owns it; nothing while none may.";
        state Text None "OWNED, or ORPHANED while no node that is there may own it.";
        database_name Text None "The database in which statements of its runs work.";
        owner_node_name Text None "The name of the node that owns it.";
        fence Int None "Grows each time that it moves.";
        owned_since Time None "Since when its owner owns it.";
        pinned_to Text None "The name of the only node that may own it.";
        labels Text None "The labels of the nodes that may own it, as an array.";
        created_at Time None "When it was made.";
    }
    calendars "Sets of days that jobs include or exclude. It takes the privilege CREATE JOB to see them." {
        calendar_uuid Uuid None "The calendar's identity.";
        calendar_name Text None "Its name.";
        days Text None "The rules of its days, as an array.";
        timezone Text None "The zone of its days for schedules without one.";
        next_day Text None "Its next day, by the date in UTC.";
        description Text None "For people.";
        version Int None "Grows with every change.";
        created_at Time None "When it was made.";
        updated_at Time None "When it was last changed.";
    }
    blackouts "Windows of time in which no tick starts, those of the cluster included. It takes the privilege CREATE JOB to see them." {
        blackout_uuid Uuid None "The blackout's identity.";
        blackout_name Text None "Its name.";
        scope Text None "TENANT or CLUSTER.";
        is_active Bool None "Whether it holds now.";
        next_from Time None "The beginning of the present window, or of the next one.";
        next_until Time None "The end of that window.";
        description Text None "For people.";
    }
    pauses "Pauses of all jobs that hold for the tenant. It takes the privilege CREATE JOB to see them." {
        scope Text None "TENANT or CLUSTER.";
        reason Text None "Why.";
        requested_by Text None "The user who asked for it.";
        since Time None "Since when.";
        until Time None "When it ends by itself.";
        is_ending Bool None "Whether it has ended and its jobs are being resumed.";
    }
    hooks "Addresses at which programs elsewhere trigger jobs. It takes the privilege ADMINISTER TENANT to see them." {
        hook_uuid Uuid None "The hook's identity.";
        hook_name Text None "Its name.";
        path Text None "The path of its address.";
        job_uuid Uuid None "The job that it triggers.";
        scheme Text None "How deliveries are checked: STANDARD, GITHUB or TOKEN.";
        requests_per_second Int None "How many deliveries it accepts in a second.";
        disabled Bool None "Whether it refuses every delivery.";
        old_secret_until Time None "Until when the secret before the present one is accepted.";
        description Text None "A description.";
        created_at Time None "When it was made.";
    }
    pools "Limits across jobs, and how much of them is in use. It takes the privilege ADMINISTER TENANT to see them." {
        pool_uuid Uuid None "The pool's identity.";
        pool_name Text None "Its name.";
        size Int None "The total weight of the runs that may be under way at the same time.";
        used Int None "The total weight of the runs that have a place.";
        waiting Int None "How many runs wait for a place.";
        description Text None "A description.";
        created_at Time None "When it was made.";
    }
    audit "The audit log, the newest first. It takes the privilege ADMINISTER TENANT to see it." {
        at Time Range "When it was recorded.";
        event_type Text None "What: JOB_CREATED, JOB_EXECUTED, LOGIN and others, see docs/audit.md.";
        actor Text Equal "The actor; empty for runs of the schedule.";
        job_uuid Uuid Equal "The job.";
        job_run_uuid Uuid None "The run.";
        node_uuid Uuid None "The node that did it.";
        outcome Text None "The result.";
        details Text None "Details.";
        number Int None "The row of the chain that says so; nothing before it is sealed.";
        job_creator_uuid Uuid None "The user who created the job.";
        attempt Int None "The last attempt of a run that ended.";
        started_at Time None "When that attempt began.";
        rows_affected Int None "Rows that its statement changed.";
    }
    performance "Metrics of the scheduler, a row for each. It takes the privilege VIEW JOB HISTORY to see them." {
        metric Text None "The name of the metric.";
        value Float None "Its value.";
        unit Text None "The unit: runs, jobs, ms, or 1 for a share.";
        description Text None "The text.";
    }
    next_runs "The times at which jobs are due next: ten for each job that is enabled." {
        job_uuid Uuid Equal "The job.";
        job_name Text Equal "Its name.";
        position Int None "1 for the next time.";
        next_run_time Int None "The time, in milliseconds since 1970.";
        next_run_at Time None "The time as a timestamp.";
    }
    tick_hours "How many scheduled times lie in each of the next 24 hours, of the jobs that are enabled." {
        hour Time None "When the hour begins.";
        ticks Int None "How many scheduled times lie in it.";
        jobs Int None "How many jobs are due in it.";
        job_uuids Text None "These jobs, as an array.";
    }
    ledger "A row for each time that a job was due, with what became of it, the newest first." {
        execution_uuid Uuid Equal "The run, or the row of times without a run.";
        job_uuid Uuid Equal "The job.";
        job_name Text Equal "The name that the job had; nothing when nothing is left of the job.";
        scheduled_time Int Range "The time, in milliseconds since 1970.";
        scheduled_for Time Range "The time as a timestamp.";
        scheduled_until Time None "The last time that the row stands for.";
        occurrences Int None "How many times the row stands for.";
        outcome Text Equal "PENDING, QUEUED, HELD, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, SKIPPED or MISSED.";
        reason Text None "Why, as a word.";
        reason_message Text None "Why, as a sentence.";
        origin Text Equal "The origin.";
        attempts Int None "How many attempts have ended, lost ones not counted.";
        lost_attempts Int None "How many attempts were lost with their nodes.";
        due_at Time None "When it may start, or might have.";
        started Time None "When its last attempt began.";
        completed Time None "When it ended.";
        dead_letter Bool None "Whether it is a dead letter that is not acknowledged.";
        created_at Time None "When the row was written.";
        parts_total Int None "How many parts the run was split into; nothing when it was not.";
        parts_completed Int None "Those parts that completed.";
        parts_failed Int None "Those parts that ended otherwise.";
    }
    dead_letters "The dead letters that are not acknowledged, the newest first." {
        execution_uuid Uuid None "The run.";
        job_uuid Uuid Equal "The job.";
        job_name Text Equal "The job's name; nothing when the job is gone.";
        scheduled_for Time None "The time that it stands for.";
        outcome Text None "How it ended.";
        reason Text None "Why, as a word.";
        reason_message Text None "Why, as a sentence.";
        error_name Text None "The error, as a name.";
        message Text None "The message of its last attempt.";
        attempts Int None "How many attempts have ended, lost ones not counted.";
        completed Time None "When it ended.";
    }
}
