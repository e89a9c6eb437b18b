//! Converts clauses to a job definition, with defaults for omitted clauses.

use std::collections::HashMap;

use domain::action::{
    Action, ArtifactAction, BackupAction, ExternalAction, HttpAction, ProcedureAction, QueueAction,
    SqlAction,
};
use domain::calendar::{CalendarMode, CalendarUse};
use domain::cluster::Labels;
use domain::id::JobId;
use domain::job::{Definition, Dependency, JobState, When};
use domain::partition::{Parameters, Partition};
use domain::schedule::{Cron, DstPolicy, Zone, Zones, parse_instant};

use crate::clause::{
    ActionClause, Clause, Clauses, PolicyClause, ScheduleClause, Upstream, UsedCalendar,
};
use crate::statement::Spanned;

/// The context of a definition.
pub struct Context<'a> {
    /// The time-zone databases.
    pub zones: &'a Zones,
    /// The zone of local times without an explicit zone.
    pub zone: &'a Zone,
    /// The jobs that DEPENDS ON names.
    pub upstream: &'a HashMap<String, JobId>,
}

/// The result of [`Clauses::define`].
#[derive(Clone, Debug, PartialEq)]
pub struct Defined {
    /// The definition.
    pub definition: Definition,
    /// The requested state.
    pub state: Option<JobState>,
}

/// Why clauses do not define a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The kind of problem.
    pub kind: Kind,
    /// The error message.
    pub message: String,
    /// The position of the problem in the text, in bytes.
    pub at: usize,
    /// The next step.
    pub hint: Option<String>,
}

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not supported by this server.
    NotSupported,
    /// Invalid cron expression.
    Cron,
    /// Unknown time zone.
    Timezone,
    /// Invalid time or schedule.
    Schedule,
    /// The job does not exist.
    NoJob,
    /// Invalid value.
    Value,
}

type Result<T> = std::result::Result<T, Refused>;

pub(crate) fn refused(kind: Kind, at: usize, message: impl ToString) -> Refused {
    Refused { kind, message: message.to_string(), at, hint: None }
}

fn not_supported(at: usize, what: &str, hint: &str) -> Refused {
    let message = format!("{what} is not supported by this server yet");
    Refused { hint: Some(hint.to_owned()), ..refused(Kind::NotSupported, at, message) }
}

impl Clauses {
    /// The jobs that DEPENDS ON names.
    pub fn upstream(&self) -> impl Iterator<Item = &Spanned<String>> {
        let lists = self.iter().filter_map(|(clause, _)| match clause {
            Clause::DependsOn(_, list) => Some(list),
            _ => None,
        });
        lists.flatten().map(|upstream| &upstream.job)
    }

    /// The definition of a new job, or of an existing one with these changes.
    pub fn define(&self, base: Option<&Definition>, context: &Context<'_>) -> Result<Defined> {
        let defined = self.define_shared(base, context)?;
        if let Some(at) = self.place_of("parameters") {
            let checked = defined.definition.parameters.check();
            checked.map_err(|problem| refused(Kind::Value, at, problem))?;
        }
        Ok(defined)
    }

    /// The same for a DAG, too, whose parameters can be lists and objects.
    pub(crate) fn define_shared(
        &self,
        base: Option<&Definition>,
        context: &Context<'_>,
    ) -> Result<Defined> {
        let mut definition = base.cloned().unwrap_or_default();
        let mut state = None;
        for (clause, at) in self.iter() {
            match clause {
                Clause::State(asked) => state = Some(*asked),
                clause => apply(&mut definition, clause, at, context)?,
            }
        }
        self.define_when(base, &mut definition, context)?;
        self.define_database(base, &mut definition)?;
        self.define_timeout(base, &mut definition);
        Ok(Defined { definition, state })
    }

    /// The schedule, with its time zone and its rules for daylight saving time.
    fn define_when(
        &self,
        base: Option<&Definition>,
        definition: &mut Definition,
        context: &Context<'_>,
    ) -> Result<()> {
        let old = base.map(|base| &base.when);
        let zone = self.iter().find_map(|(clause, at)| match clause {
            Clause::Timezone(name) => Some((name.as_deref().unwrap_or("UTC"), at)),
            _ => None,
        });
        let zone = match zone {
            Some((name, at)) => {
                let found = context.zones.find(name);
                Some((found.map_err(|error| refused(Kind::Timezone, at, error))?, at))
            }
            None => None,
        };
        let local = zone.as_ref().map_or(context.zone, |(zone, _)| zone);
        let schedule = self.iter().find_map(|(clause, _)| match clause {
            Clause::Schedule(schedule) => Some(schedule),
            _ => None,
        });
        let has_upstream = !definition.depends_on.is_empty();
        let mut when = match (schedule, old) {
            (Some(schedule), old) => schedule_of(schedule, old, local, context)?,
            (None, Some(old)) => old.clone(),
            (None, None) if has_upstream => When::AfterDependencies,
            (None, None) => When::Manual,
        };
        let is_instant =
            matches!(schedule, Some(ScheduleClause::At(_) | ScheduleClause::Every { .. }));
        if let Some((zone, at)) = zone {
            match &mut when {
                When::Cron { zone: name, .. } => *name = zone.name().to_owned(),
                _ if is_instant => {}
                _ => {
                    let text = "TIMEZONE needs a schedule with times: SCHEDULE = CRON or AT";
                    return Err(refused(Kind::Schedule, at, text));
                }
            }
        }
        for (clause, at) in self.iter() {
            let set: &dyn Fn(&mut DstPolicy) = match clause {
                Clause::DstGap(gap) => &move |dst| dst.gap = *gap,
                Clause::DstOverlap(overlap) => &move |dst| dst.overlap = *overlap,
                _ => continue,
            };
            match &mut when {
                When::Cron { dst, .. } => set(dst),
                _ => {
                    let text = "DST needs local times: SCHEDULE = CRON";
                    return Err(refused(Kind::Schedule, at, text));
                }
            }
        }
        definition.when = when;
        Ok(())
    }

    /// The default timeout of the action, if no clause sets one. An explicit timeout stays when the
    /// action changes.
    fn define_timeout(&self, base: Option<&Definition>, definition: &mut Definition) {
        let is_given = self.place_of("timeout").is_some();
        if !is_given && base.is_none_or(Definition::has_default_timeout) {
            definition.timeout = definition.action.default_timeout();
        }
    }

    /// The database of the action. A new action keeps the database of the old one.
    fn define_database(
        &self,
        base: Option<&Definition>,
        definition: &mut Definition,
    ) -> Result<()> {
        let said = self.iter().find_map(|(clause, at)| match clause {
            Clause::Database(name) => Some((name.clone(), at)),
            _ => None,
        });
        let old = base.and_then(|base| match &base.action {
            Action::Sql(SqlAction { database, .. })
            | Action::Procedure(ProcedureAction { database, .. }) => database.clone(),
            _ => None,
        });
        match (&mut definition.action, said) {
            (
                Action::Sql(SqlAction { database, .. })
                | Action::Procedure(ProcedureAction { database, .. }),
                said,
            ) => *database = said.map_or(old, |(name, _)| name),
            (_, None | Some((None, _))) => {}
            (_, Some((Some(_), at))) => {
                let text = "DATABASE needs statements or a procedure: AS 'statement' or AS CALL";
                return Err(refused(Kind::Value, at, text));
            }
        }
        Ok(())
    }
}

fn apply(job: &mut Definition, clause: &Clause, at: usize, context: &Context<'_>) -> Result<()> {
    match clause {
        Clause::Policy(PolicyClause { field, policy, value }) => {
            if !(policy.set)(job, value.clone()) {
                return Err(refused(Kind::Value, at, format!("{} has another kind", field.name)));
            }
        }
        Clause::Queue(None) => {}
        Clause::RunOn(labels) => job.run_on = Labels(labels.iter().cloned().collect()),
        Clause::PartitionBy(rule) => {
            let checked = rule.as_ref().map_or(Ok(()), Partition::check);
            checked.map_err(|problem| refused(Kind::Value, at, problem))?;
            job.partition.clone_from(rule);
        }
        Clause::Queue(Some(_)) => {
            return Err(not_supported(at, "QUEUE", "Leave it out, or use PRIORITY."));
        }
        Clause::ExcludeCalendars(list) => set_calendars(job, CalendarMode::Exclude, list),
        Clause::IncludeCalendars(list) => set_calendars(job, CalendarMode::Include, list),
        Clause::Parameters(values, from) => {
            let values = values.iter().map(|(name, value)| (name.clone(), value.json())).collect();
            job.parameters = Parameters { values, from: from.clone() };
            let checked = job.parameters.check_config();
            checked.map_err(|problem| refused(Kind::Value, at, problem))?;
        }
        // These clauses are handled together below.
        Clause::Schedule(_)
        | Clause::Timezone(_)
        | Clause::DstGap(_)
        | Clause::DstOverlap(_)
        | Clause::Database(_)
        | Clause::State(_) => {}
        Clause::DependsOn(rule, list) => {
            job.depends_on = upstream(list, context)?;
            job.dependency_rule = *rule;
        }
        Clause::MaxRetries(retries) => {
            let too_many = || refused(Kind::Value, at, "too many retries");
            job.retry.max_attempts = retries.checked_add(1).ok_or_else(too_many)?;
        }
        Clause::RetryBackoff(backoff) => job.retry.backoff = *backoff,
        Clause::MaxBackoff(backoff) => job.retry.max_backoff = *backoff,
        Clause::BackoffMultiplier(multiplier) => job.retry.multiplier = *multiplier,
        Clause::RetryJitter(jitter) => job.retry.jitter = *jitter,
        Clause::RetryOn(filter) => job.retry.retry_on = filter.clone(),
        Clause::NoRetryOn(filter) => job.retry.no_retry_on = filter.clone(),
        Clause::Retention(kept) => job.retention = *kept,
        Clause::OnLost(then, question) => {
            job.on_lost = *then;
            job.lost_question = question.unwrap_or_default();
        }
        Clause::Declare(rules) => {
            for rule in rules {
                rule.checked().map_err(|error| refused(Kind::Value, at, error))?;
            }
            job.parameter_rules.clone_from(rules);
        }
        Clause::Pool(pool) => job.pool.clone_from(pool),
        Clause::As(action) => job.action = action_of(action),
    }
    Ok(())
}

fn upstream(list: &[Upstream], context: &Context<'_>) -> Result<Vec<Dependency>> {
    let found = |upstream: &Upstream| {
        let Spanned { value: name, at } = &upstream.job;
        let none = || refused(Kind::NoJob, *at, format!("there is no job {name:?}"));
        let job = *context.upstream.get(name).ok_or_else(none)?;
        Ok(Dependency { job, on: upstream.on })
    };
    list.iter().map(found).collect()
}

fn schedule_of(
    schedule: &ScheduleClause,
    old: Option<&When>,
    zone: &Zone,
    context: &Context<'_>,
) -> Result<When> {
    let time = |written: &Spanned<String>| {
        let instant = parse_instant(&written.value, zone, context.zones);
        instant.map_err(|error| refused(Kind::Schedule, written.at, error))
    };
    Ok(match schedule {
        ScheduleClause::Manual => When::Manual,
        ScheduleClause::AfterDependencies => When::AfterDependencies,
        ScheduleClause::At(at) => When::At { at: time(at)? },
        ScheduleClause::Every { interval, starts, ends } => When::Every {
            interval: *interval,
            starts: starts.as_ref().map(time).transpose()?,
            ends: ends.as_ref().map(time).transpose()?,
        },
        ScheduleClause::Cron(expression) => {
            check_cron(expression)?;
            let (zone, dst) = match old {
                Some(When::Cron { zone, dst, .. }) => (zone.clone(), *dst),
                _ => ("UTC".to_owned(), DstPolicy::default()),
            };
            When::Cron { expression: expression.value.clone(), zone, dst }
        }
    })
}

/// Checks a cron expression; the position of an error counts from the character after the quote.
fn check_cron(expression: &Spanned<String>) -> Result<()> {
    expression.value.parse::<Cron>().map(drop).map_err(|error| {
        let at = expression.at + 1 + error.span.start;
        Refused { hint: error.hint.clone(), ..refused(Kind::Cron, at, &error) }
    })
}

pub(crate) fn action_of(action: &ActionClause) -> Action {
    match action.clone() {
        ActionClause::Noop => Action::Noop,
        ActionClause::Sql(sql) => Action::Sql(SqlAction { sql, database: None }),
        ActionClause::Call(procedure, arguments) => {
            Action::Procedure(ProcedureAction { procedure, arguments, database: None })
        }
        ActionClause::Exec { command, arguments, environment } => {
            let environment = environment.into_iter().collect();
            Action::External(ExternalAction { command, arguments, environment })
        }
        ActionClause::Artifact { artifact, entrypoint, floating, arguments, environment } => {
            Action::Artifact(ArtifactAction {
                artifact_id: artifact,
                entrypoint,
                arguments,
                environment: environment.into_iter().collect(),
                floating,
                pinned: None,
            })
        }
        ActionClause::Http { method, endpoint, headers, body, expected_status } => {
            let headers = headers.into_iter().collect();
            Action::Http(HttpAction { endpoint, method, headers, body, expected_status })
        }
        ActionClause::Send { queue, message, workspace, priority, awaits, adaptive } => {
            Action::Queue(QueueAction { queue, message, workspace, priority, awaits, adaptive })
        }
        ActionClause::Backup { target, keep, outputs, artifacts } => {
            Action::Backup(BackupAction { target, keep, outputs, artifacts })
        }
    }
}

/// Replaces the calendars of a job that it includes, or those that it excludes.
fn set_calendars(job: &mut Definition, mode: CalendarMode, list: &[UsedCalendar]) {
    job.calendars.retain(|it| it.mode != mode);
    job.calendars.extend(list.iter().map(|it| CalendarUse {
        name: it.name.clone(),
        mode,
        shift: it.shift,
        resolved: None,
    }));
}
