//! Command tags of statements.

use super::{CreateJob, Discard, IfPresent, SavepointVerb, Statement, Transaction, Verb};

impl Statement {
    /// The command tag, as PostgreSQL clients expect it.
    pub fn tag(&self) -> &'static str {
        let thing = |verb: Verb, tags: [&'static str; 3]| match verb {
            Verb::Create | Verb::CreateIfAbsent | Verb::CreateOrAlter => tags[0],
            Verb::Alter => tags[1],
            Verb::Drop | Verb::DropIfPresent => tags[2],
        };
        match self {
            Statement::Select(_) => "SELECT",
            Statement::Template(template) => template.shape.tag(),
            Statement::CreateJob(CreateJob { if_present: IfPresent::Replace, .. }) => {
                "RECREATE JOB"
            }
            Statement::CreateJob(_) => "CREATE JOB",
            Statement::AlterJob(_) => "ALTER JOB",
            Statement::DropJob(_) => "DROP JOB",
            Statement::PauseJob(_) => "PAUSE JOB",
            Statement::ResumeJob(..) => "RESUME JOB",
            Statement::ExecuteJob(_) => "EXECUTE JOB",
            Statement::CancelRun(_) => "CANCEL JOB RUN",
            Statement::RetryRun(_) => "RETRY JOB RUN",
            Statement::DecideRun { .. } => "DECIDE JOB RUN",
            Statement::BackfillJob(_) => "BACKFILL JOB",
            Statement::ExplainJob(_) | Statement::ExplainRun(_) | Statement::ExplainMessage(_) => {
                "EXPLAIN"
            }
            Statement::RestoreJob { .. } => "RESTORE JOB",
            Statement::ShowCreateJob { .. }
            | Statement::ShowVersions { .. }
            | Statement::ShowDiff { .. }
            | Statement::ShowJobs { .. }
            | Statement::ShowRuns { .. }
            | Statement::ShowShards
            | Statement::ShowCalendars
            | Statement::ShowCreateCalendar(_)
            | Statement::ShowBlackouts
            | Statement::ShowPools
            | Statement::ShowHooks
            | Statement::ShowQueues { .. }
            | Statement::Show(_) => "SHOW",
            Statement::Shard(shard) => {
                thing(shard.verb, ["CREATE SHARD", "ALTER SHARD", "DROP SHARD"])
            }
            Statement::Hook(hook) => thing(hook.verb, ["CREATE HOOK", "ALTER HOOK", "DROP HOOK"]),
            Statement::Pool(pool) => thing(pool.verb, ["CREATE POOL", "ALTER POOL", "DROP POOL"]),
            Statement::Queue(queue) => {
                thing(queue.verb, ["CREATE QUEUE", "ALTER QUEUE", "DROP QUEUE"])
            }
            Statement::Calendar(calendar) => {
                thing(calendar.verb, ["CREATE CALENDAR", "ALTER CALENDAR", "DROP CALENDAR"])
            }
            Statement::Blackout(blackout) => {
                thing(blackout.verb, ["CREATE BLACKOUT", "ALTER BLACKOUT", "DROP BLACKOUT"])
            }
            Statement::PauseAll(_) => "PAUSE ALL",
            Statement::ResumeAll { .. } => "RESUME ALL",
            Statement::Dag(dag) => dag.tag(),
            Statement::PauseQueue(_) => "PAUSE QUEUE",
            Statement::DrainQueue(_) => "DRAIN QUEUE",
            Statement::ResumeQueue(_) => "RESUME QUEUE",
            Statement::Send(_) => "SEND",
            Statement::Grant(_) => "GRANT",
            Statement::Revoke(_) => "REVOKE",
            // PostgreSQL has one kind of user and role, with one tag.
            Statement::User(user) => thing(user.verb, ["CREATE ROLE", "ALTER ROLE", "DROP ROLE"]),
            Statement::Role(role) => thing(role.verb, ["CREATE ROLE", "ALTER ROLE", "DROP ROLE"]),
            Statement::Secret(secret) => {
                thing(secret.verb, ["CREATE SECRET", "ALTER SECRET", "DROP SECRET"])
            }
            Statement::Set(_) | Statement::Transaction(Transaction::Characteristics(_)) => "SET",
            Statement::Reset(_) => "RESET",
            Statement::Transaction(Transaction::Begin(_)) => "BEGIN",
            Statement::Transaction(Transaction::Commit) => "COMMIT",
            Statement::Transaction(Transaction::Rollback) => "ROLLBACK",
            Statement::Savepoint(savepoint) => match savepoint.verb {
                SavepointVerb::Set => "SAVEPOINT",
                SavepointVerb::Release => "RELEASE",
                SavepointVerb::RollbackTo => "ROLLBACK",
            },
            Statement::Discard(Discard::All) => "DISCARD ALL",
            Statement::Discard(Discard::Plans) => "DISCARD PLANS",
            Statement::Discard(Discard::Sequences) => "DISCARD SEQUENCES",
            Statement::Discard(Discard::Temp) => "DISCARD TEMP",
            Statement::Listen(_) => "LISTEN",
            Statement::Unlisten(_) => "UNLISTEN",
            Statement::Copy(_) => "COPY",
            Statement::Deallocate(None) => "DEALLOCATE ALL",
            Statement::Deallocate(Some(_)) => "DEALLOCATE",
            Statement::Close(None) => "CLOSE CURSOR ALL",
            Statement::Close(Some(_)) => "CLOSE CURSOR",
            Statement::Unsupported { .. } => "",
        }
    }

    /// Whether the statement changes, or may change, state outside of the session.
    pub fn changes(&self) -> bool {
        match self {
            Statement::Template(template) => template.shape.changes(),
            Statement::BackfillJob(backfill) => !backfill.dry_run,
            Statement::Dag(dag) => dag.changes(),
            Statement::CreateJob(_)
            | Statement::AlterJob(_)
            | Statement::DropJob(_)
            | Statement::PauseJob(_)
            | Statement::ResumeJob(..)
            | Statement::RestoreJob { .. }
            | Statement::ExecuteJob(_)
            | Statement::CancelRun(_)
            | Statement::RetryRun(_)
            | Statement::DecideRun { .. }
            | Statement::Grant(_)
            | Statement::Revoke(_)
            | Statement::User(_)
            | Statement::Role(_)
            | Statement::Secret(_)
            | Statement::Shard(_)
            | Statement::Pool(_)
            | Statement::Hook(_)
            | Statement::Queue(_)
            | Statement::Calendar(_)
            | Statement::Blackout(_)
            | Statement::PauseAll(_)
            | Statement::ResumeAll { .. }
            | Statement::PauseQueue(_)
            | Statement::DrainQueue(_)
            | Statement::ResumeQueue(_)
            | Statement::Send(_)
            | Statement::Transaction(Transaction::Commit) => true,
            _ => false,
        }
    }
}
