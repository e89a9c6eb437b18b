//! Calendars, blackouts and the pause of all jobs.

use domain::calendar::Calendar;
use domain::object::{Object, ObjectKind};
use domain::schedule::CatchUpPolicy;
use engine::{Scope, Set};
use query::Value;
use sql::{BlackoutStatement, CalendarStatement, PauseAll, Spanned, Statement, Verb};

use super::answer::{BLACKOUTS, CALENDARS, or_null, text};
use super::{Answer, Result, Session, SqlError};
use crate::condition::Condition;
use crate::problem::Code;
use crate::rest::blackouts::{self, BlackoutSpec, ScopeName};
use crate::rest::calendars::{CalendarSpec, Calendars};
use crate::rest::pause::PauseSpec;
use crate::rest::resource::{Resource, alter, make};
use crate::rest::shape::duration::Seconds;

/// So many calendars are shown.
const SHOWN_MAX: u32 = 1_000;

impl Session {
    pub(super) async fn calendar(&self, asked: &CalendarStatement) -> Result<Answer> {
        let at = asked.name.at;
        let notice = self.change_calendar(asked).await.map_err(|error| error.or_at(at))?;
        let answer = Answer::done(Statement::Calendar(asked.clone()).tag());
        Ok(match notice {
            None => answer,
            Some(notice) => answer.with_notice(notice),
        })
    }

    /// Answers what the client should know.
    async fn change_calendar(&self, asked: &CalendarStatement) -> Result<Option<String>> {
        let (app, actor, name) = (&self.app, &self.actor, &asked.name.value);
        let known = app.engine.by(actor).object_by_name(ObjectKind::Calendar, name).await?;
        match (asked.verb, known) {
            (Verb::Create, Some(_)) => {
                return Err(exists("calendar", name, "ALTER CALENDAR changes it."));
            }
            (Verb::CreateIfAbsent, Some(_)) => {
                return Ok(Some(format!("calendar {name:?} already exists, skipping")));
            }
            (Verb::Create | Verb::CreateIfAbsent | Verb::CreateOrAlter, None) => {
                let spec = CalendarSpec { name: name.clone(), ..CalendarSpec::default() };
                make::<Calendars>(app, actor, changed(asked, spec)?).await?;
            }
            (Verb::Alter | Verb::Drop, None) => return Err(missing("calendar", name)),
            (Verb::Alter | Verb::CreateOrAlter, Some(old)) => {
                let spec = changed(asked, Calendars::spec(&old)?)?;
                alter::<Calendars>(app, actor, old, spec, Condition::None).await?;
            }
            (Verb::DropIfPresent, None) => {
                return Ok(Some(format!("calendar {name:?} does not exist, skipping")));
            }
            (Verb::Drop | Verb::DropIfPresent, Some(old)) => {
                if let Set::Conflict(_) = app.engine.by(actor).remove_object(&old).await? {
                    let text = "the calendar was changed meanwhile; try again";
                    return Err(SqlError::new(Code::VersionConflict, text));
                }
            }
        }
        Ok(None)
    }

    pub(super) async fn show_calendars(&self) -> Result<Answer> {
        let engine = self.app.engine.by(&self.actor);
        let found = engine.list_objects(ObjectKind::Calendar, None, SHOWN_MAX).await?;
        let row = |object: &Object| {
            let calendar = Calendar::from_body(&object.body).unwrap_or_default();
            let days: Vec<&str> = calendar.days.iter().map(|rule| rule.as_str()).collect();
            vec![
                text(&object.name),
                text(days.join("; ")),
                or_null(calendar.timezone, text),
                or_null(calendar.description, text),
                Value::Int(i64::from(object.version)),
            ]
        };
        Ok(Answer::rows(CALENDARS, found.items.iter().map(row).collect()))
    }

    pub(super) async fn show_create_calendar(&self, name: &Spanned<String>) -> Result<Answer> {
        let engine = self.app.engine.by(&self.actor);
        let found = engine.object_by_name(ObjectKind::Calendar, &name.value).await?;
        let object = found.ok_or_else(|| missing("calendar", &name.value).or_at(name.at))?;
        let calendar = engine::calendar_of(&object)?;
        let statement = sql::create_calendar(&object.name, &calendar);
        Ok(Answer::rows(
            super::answer::CREATE_CALENDAR,
            vec![vec![text(&object.name), text(statement)]],
        ))
    }

    pub(super) async fn blackout(&self, asked: &BlackoutStatement) -> Result<Answer> {
        let at = asked.name.at;
        let notice = self.change_blackout(asked).await.map_err(|error| error.or_at(at))?;
        let answer = Answer::done(Statement::Blackout(asked.clone()).tag());
        Ok(match notice {
            None => answer,
            Some(notice) => answer.with_notice(notice),
        })
    }

    async fn change_blackout(&self, asked: &BlackoutStatement) -> Result<Option<String>> {
        let (app, actor, name) = (&self.app, &self.actor, &asked.name.value);
        let known = match blackouts::find(app, actor, name).await {
            Ok(object) => Some(object),
            Err(problem) if problem.code == Code::NotFound => None,
            Err(problem) => return Err(problem.into()),
        };
        let spec = BlackoutSpec {
            name: name.clone(),
            scope: if asked.is_cluster { ScopeName::Cluster } else { ScopeName::Tenant },
            description: asked.description.clone(),
            from: asked.from.clone(),
            until: asked.until.clone(),
            cron_expression: asked.cron.clone(),
            timezone: asked.timezone.clone().or_else(|| self.setting("timezone")),
            duration_seconds: asked.duration.map(Seconds),
        };
        match (asked.verb, known) {
            (Verb::Create | Verb::Alter, Some(_)) => {
                return Err(exists("blackout", name, "CREATE OR ALTER BLACKOUT changes it."));
            }
            (Verb::CreateIfAbsent, Some(_)) => {
                return Ok(Some(format!("blackout {name:?} already exists, skipping")));
            }
            (Verb::CreateOrAlter, known) => {
                blackouts::put(app, actor, &spec, known).await?;
            }
            (Verb::Create | Verb::CreateIfAbsent | Verb::Alter, None) => {
                blackouts::put(app, actor, &spec, None).await?;
            }
            (Verb::Drop, None) => return Err(missing("blackout", name)),
            (Verb::DropIfPresent, None) => {
                return Ok(Some(format!("blackout {name:?} does not exist, skipping")));
            }
            (Verb::Drop | Verb::DropIfPresent, Some(old)) => {
                blackouts::remove(app, actor, &old).await?;
            }
        }
        Ok(None)
    }

    pub(super) async fn show_blackouts(&self) -> Result<Answer> {
        let found = self.app.engine.by(&self.actor).blackouts().await?;
        let now = self.app.now();
        let row = |object: &Object| {
            let blackout = domain::blackout::Blackout::from_body(&object.body).ok();
            let compiled =
                blackout.as_ref().and_then(|it| it.compile(&object.name, &self.app.zones).ok());
            let next = compiled.as_ref().and_then(|it| it.window_from(now));
            let is_cluster = object.tenant == domain::id::TenantId::CLUSTER;
            vec![
                text(&object.name),
                text(if is_cluster { "CLUSTER" } else { "TENANT" }),
                Value::Bool(compiled.is_some_and(|it| it.contains(now))),
                or_null(next.map(|(from, _)| from), Value::Time),
                or_null(next.map(|(_, until)| until), Value::Time),
                or_null(blackout.and_then(|it| it.description), text),
            ]
        };
        Ok(Answer::rows(BLACKOUTS, found.iter().map(row).collect()))
    }

    pub(super) async fn pause_all(&self, asked: &PauseAll) -> Result<Answer> {
        let until = match &asked.until {
            Some(until) => Some(self.time_of(Some(until))?.to_string()),
            None => None,
        };
        let spec = PauseSpec {
            reason: asked.reason.value.clone(),
            until,
            scope: if asked.is_cluster { ScopeName::Cluster } else { ScopeName::Tenant },
        };
        let pause = spec.pause(&self.app, &domain::schedule::Zone::UTC)?;
        let engine = self.app.engine.by(&self.actor);
        let jobs = engine.pause_all(spec.scope.into(), &pause).await?;
        Ok(Answer::done(&format!("PAUSE ALL {jobs}")))
    }

    pub(super) async fn resume_all(
        &self,
        is_cluster: bool,
        catch_up: Option<CatchUpPolicy>,
    ) -> Result<Answer> {
        let scope = if is_cluster { Scope::Cluster } else { Scope::Tenant };
        let jobs = self.app.engine.by(&self.actor).resume_all(scope, catch_up).await?;
        Ok(Answer::done(&format!("RESUME ALL {jobs}")))
    }
}

fn missing(kind: &str, name: &str) -> SqlError {
    let error = SqlError::new(Code::NotFound, format!("there is no {kind} {name:?}"));
    error.with_state("42704")
}

fn exists(kind: &str, name: &str, hint: &str) -> SqlError {
    let error = SqlError::new(Code::AlreadyExists, format!("there is a {kind} {name:?}"));
    error.with_hint(hint)
}

/// Applies a statement to the definition of a calendar.
fn changed(asked: &CalendarStatement, mut spec: CalendarSpec) -> Result<CalendarSpec> {
    if let Some(days) = &asked.days {
        spec.days.clone_from(days);
    }
    for rule in &asked.remove {
        let parsed = rule.value.parse::<domain::calendar::DayRule>();
        let wanted = parsed.map_or_else(|_| rule.value.clone(), |rule| rule.to_string());
        let place = spec.days.iter().position(|known| *known == wanted);
        let Some(place) = place else {
            let text = format!("calendar {:?} has no rule {:?}", spec.name, rule.value);
            return Err(SqlError::new(Code::NotFound, text).or_at(rule.at));
        };
        spec.days.remove(place);
    }
    spec.days.extend(asked.add.iter().cloned());
    spec.ics.clone_from(&asked.ics);
    if let Some(timezone) = &asked.timezone {
        spec.timezone.clone_from(timezone);
    }
    if let Some(description) = &asked.description {
        spec.description.clone_from(description);
    }
    Ok(spec)
}
