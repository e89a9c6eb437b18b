//! Warnings about a job that is created, changed or shown: `warnings` over REST, notices in SQL,
//! lines on stderr at the command line. Each names the setting or the object that has to change.

use std::collections::{BTreeSet, HashMap};

use domain::action::{Action, ExternalAction};
use domain::cluster::NodeState;
use domain::decide::plan::PLANNER_LAG_MAX;
use domain::id::{JobId, TenantId};
use domain::job::{Definition, Job, JobState};
use domain::schedule::{Schedule, catch_up};
use domain::secret::{Scope, SecretPlace};
use engine::{NewJob, NodeView};
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::app::App;

/// How a reference to a secret begins.
const SECRET_OPEN: &str = "${secrets.";

/// Programs that interpret a shell line themselves.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// The warnings of jobs of one request. It remembers what it looked up, so that a request for many
/// jobs does not ask the store for each of them.
pub(crate) struct JobWarnings<'a> {
    app: &'a App,
    nodes: Option<Vec<NodeView>>,
    secrets: HashMap<(TenantId, JobId, String), bool>,
}

/// The warnings of one job.
pub(crate) async fn warnings(app: &App, job: &Job) -> Vec<String> {
    JobWarnings::new(app).of_job(job).await
}

impl<'a> JobWarnings<'a> {
    pub(crate) fn new(app: &'a App) -> Self {
        JobWarnings { app, nodes: None, secrets: HashMap::new() }
    }

    /// The warnings of a job.
    pub(crate) async fn of_job(&mut self, job: &Job) -> Vec<String> {
        let mut warnings = self.of(job.tenant, job.id, &job.definition, job.state).await;
        // If the owner cannot be looked up now, no warning is given.
        if let Ok(Some(obstacle)) = self.app.engine.node().obstacle(job).await {
            warnings.push(format!("its runs will fail: {obstacle}"));
        }
        warnings
    }

    /// The warnings of a job that does not exist yet. A caller without the privileges that it
    /// needs is refused before.
    pub(crate) async fn of_new(&mut self, new: &NewJob) -> Vec<String> {
        self.of(new.tenant, JobId::NONE, &new.definition, new.state).await
    }

    async fn of(
        &mut self,
        tenant: TenantId,
        job: JobId,
        definition: &Definition,
        state: JobState,
    ) -> Vec<String> {
        let mut warnings = about_schedule(self.app, definition, state);
        if definition.run_on.is_empty() {
            // Nodes with labels may have other settings than this one.
            if let Some(objection) = self.app.trials.objection(tenant, definition) {
                warnings.push(format!(
                    "the policy of this server refuses the action, and a run of it fails without a retry: {objection}"
                ));
            }
            warnings.extend(self.about_database(tenant, definition).await);
        } else {
            warnings.extend(self.about_labels(definition).await);
        }
        if let Action::External(action) = &definition.action {
            warnings.extend(about_shell_line(action));
        }
        for name in secrets_of(&definition.action) {
            if self.is_missing(tenant, job, &name).await {
                warnings.push(format!(
                    "there is no secret {name:?}, and a run fails without it: punctual secret set {name}"
                ));
            }
        }
        warnings
    }

    /// A SQL job needs a database that this server knows.
    async fn about_database(&self, tenant: TenantId, definition: &Definition) -> Option<String> {
        let name = match &definition.action {
            Action::Sql(action) => &action.database,
            Action::Procedure(action) => &action.database,
            Action::Noop
            | Action::Http(_)
            | Action::External(_)
            | Action::Backup(_)
            | Action::Artifact(_)
            | Action::Queue(_) => {
                return None;
            }
        };
        let known = self.app.trials.known_database(tenant, name.as_deref()).await;
        known.err().map(|problem| format!("a run fails: {problem}"))
    }

    /// A job with labels waits for a node that has all of them.
    async fn about_labels(&mut self, definition: &Definition) -> Option<String> {
        if self.nodes.is_none() {
            self.nodes = Some(self.app.engine.node().nodes().await.ok()?);
        }
        let wanted = &definition.run_on.0;
        let is_there =
            |node: &NodeView| matches!(node.state, NodeState::Active | NodeState::Draining);
        let has_all = |node: &NodeView| {
            wanted.iter().all(|(key, value)| node.info.labels.0.get(key) == Some(value))
        };
        let nodes = self.nodes.as_deref().unwrap_or_default();
        if nodes.iter().any(|node| is_there(node) && has_all(node)) {
            return None;
        }
        Some(format!(
            "no node has the labels {} (run_on): its runs wait until one joins (engine.labels, punctual agent --labels)",
            definition.run_on.pairs().join(",")
        ))
    }

    /// Whether no secret of this name is visible to a job. A failed lookup counts as present.
    async fn is_missing(&mut self, tenant: TenantId, job: JobId, name: &str) -> bool {
        let key = (tenant, job, name.to_owned());
        if let Some(known) = self.secrets.get(&key) {
            return *known;
        }
        let mut is_missing = true;
        for scope in Scope::seen_by(tenant, job) {
            let place = SecretPlace { scope, name: name.to_owned() };
            match self.app.secrets.find(&place).await {
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => is_missing = false,
            }
        }
        self.secrets.insert(key, is_missing);
        is_missing
    }
}

fn about_schedule(app: &App, definition: &Definition, state: JobState) -> Vec<String> {
    let now = app.now();
    let mut warnings = about_calendars(app, definition, now);
    warnings.extend(match definition.when.compile(&app.zones) {
        Ok(Some(Schedule::Cron(cron))) => cron.lint(now).iter().map(ToString::to_string).collect(),
        Ok(Some(schedule @ Schedule::At(at))) if at < now && state == JobState::Enabled => {
            vec![passed(definition, &schedule, at, now)]
        }
        _ => Vec::new(),
    });
    warnings
}

/// Calendars that leave no time, or that have run out of days.
fn about_calendars(app: &App, definition: &Definition, now: Timestamp) -> Vec<String> {
    let resolved = definition.calendars.iter().filter_map(|it| Some((it, it.resolved.as_ref()?)));
    let today = jiff::tz::TimeZone::UTC.to_datetime(now).date();
    let mut warnings: Vec<String> = resolved
        .filter(|(_, resolved)| {
            let next_year = today.saturating_add(1.year());
            resolved.calendar.days_between(today, next_year, 1).is_empty()
        })
        .map(|(it, _)| format!("calendar {:?} has no day within a year from now", it.name))
        .collect();
    let is_resolved = definition.calendars.iter().all(|it| it.resolved.is_some());
    if let Ok(Some(schedule)) = definition.schedule(&app.zones)
        && is_resolved
        && schedule.base().next(now).is_some()
        && schedule.next(now).is_none()
    {
        warnings.push("its calendars exclude every time to come: the job never runs".to_owned());
    }
    warnings
}

/// The planner's decision about a single time that has passed.
fn passed(definition: &Definition, schedule: &Schedule, at: Timestamp, now: Timestamp) -> String {
    let before = at.saturating_sub(SignedDuration::from_nanos(1)).unwrap_or(at);
    let missed_until = now.saturating_sub(PLANNER_LAG_MAX).unwrap_or(at);
    let rules = definition.catch_up_rules();
    let decision = catch_up(schedule, before, missed_until, now, &rules);
    if decision.run.contains(&at) || decision.live.contains(&at) {
        format!("{at} has passed: the job runs at once")
    } else if decision.missed.is_some() {
        format!("{at} has passed, and so has the start deadline: the run is recorded as missed")
    } else {
        format!("{at} has passed, and the job does not catch up: the run is recorded as skipped")
    }
}

/// A command is a program, and its arguments are texts: no shell reads them.
fn about_shell_line(action: &ExternalAction) -> Option<String> {
    let program = action.command.rsplit('/').next().unwrap_or_default();
    if SHELLS.contains(&program) {
        return None;
    }
    let advice = "no shell reads it; let one do so with --shell, or with the command /bin/sh and the arguments -c and the line";
    let is_line = |text: &str| text.contains([' ', '\t', '\n', '|', '>', '<', ';', '&', '$', '`']);
    if is_line(&action.command) {
        return Some(format!("the command {:?} looks like a shell line: {advice}", action.command));
    }
    let operators = ["|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "2>&1"];
    let operator = action.arguments.iter().find(|text| operators.contains(&text.as_str()))?;
    Some(format!("the argument {operator:?} looks like part of a shell line: {advice}"))
}

/// The names of the secrets that an action refers to.
fn secrets_of(action: &Action) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    if let Ok(value) = serde_json::to_value(action) {
        collect_secrets(&value, &mut names);
    }
    names
}

fn collect_secrets(value: &serde_json::Value, names: &mut BTreeSet<String>) {
    use serde_json::Value;
    match value {
        Value::String(text) => {
            let references = text.split(SECRET_OPEN).skip(1);
            let named = references.filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
            // Malformed placeholders are refused elsewhere, with a message of their own.
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            names.extend(
                named.filter(|it| !it.is_empty() && it.chars().all(is_of_name)).map(str::to_owned),
            );
        }
        Value::Array(items) => items.iter().for_each(|item| collect_secrets(item, names)),
        Value::Object(fields) => fields.values().for_each(|item| collect_secrets(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn action(value: serde_json::Value) -> Action {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn secrets_are_found_in_every_text_of_an_action() {
        let http = action(json!({
            "type": "HTTP", "endpoint": "https://x/${secrets.PATH}",
            "headers": {"a": "Bearer ${secrets.TOKEN} ${secrets.TOKEN}"},
            "body": {"deep": ["${secrets.in.body-1}", "${secrets.}", "${secrets.open"]},
        }));
        let names: Vec<String> = secrets_of(&http).into_iter().collect();
        assert_eq!(names, ["PATH", "TOKEN", "in.body-1"]);
        assert!(secrets_of(&Action::Noop).is_empty());
    }

    #[test]
    fn a_shell_line_is_told_from_a_program_with_arguments() {
        let rows: &[(&str, &[&str], bool)] = &[
            ("/usr/bin/true", &[], false),
            ("/usr/bin/echo", &["a b", "$HOME"], false),
            ("/bin/sh", &["-c", "a | b"], false),
            ("bash", &["-c", "a && b"], false),
            ("echo hello", &[], true),
            ("date>file", &[], true),
            ("/usr/bin/echo", &["a", "|", "wc"], true),
            ("/usr/bin/make", &["x", "&&", "y"], true),
        ];
        for (command, arguments, expected) in rows {
            let action = ExternalAction {
                command: (*command).to_owned(),
                arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
                environment: Default::default(),
            };
            let warning = about_shell_line(&action);
            assert_eq!(warning.is_some(), *expected, "{command} {arguments:?}: {warning:?}");
        }
    }
}
