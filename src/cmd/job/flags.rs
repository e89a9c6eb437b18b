//! The definition of a job, as options of `job create` and `job edit`.

use std::fs;
use std::io::Read;

use clap::Args;
use domain::cluster::{LabelError, Labels};
use domain::schedule::parse_duration;
use serde_json::{Map, Value, json};

use crate::cli_error::CliError;
use crate::exit::Failure;
use crate::times;

mod policy;
mod spread;

use policy::PolicyFlags;
use spread::SpreadFlags;

/// When a job is due and what it does.
#[derive(Args, Default)]
pub struct JobFlags {
    /// Run at the times of a cron expression
    #[arg(
        long,
        alias = "schedule",
        value_name = "EXPR",
        help_heading = "Schedule",
        group = "when"
    )]
    cron: Option<String>,

    /// Run at once, and then at a fixed interval, such as 90s or 1h 30m
    #[arg(long, value_name = "DURATION", help_heading = "Schedule", group = "when", value_parser = seconds)]
    every: Option<Seconds>,

    /// Run once, at an instant or at a local time of --tz
    #[arg(long, value_name = "TIME", help_heading = "Schedule", group = "when")]
    at: Option<String>,

    /// Run once, this long after the job is made
    #[arg(long = "in", value_name = "DURATION", help_heading = "Schedule", group = "when", value_parser = seconds)]
    delay: Option<Seconds>,

    /// Run when another job has ended well; JOB:failure and JOB:completion for other ends
    #[arg(long, value_name = "JOB", help_heading = "Schedule")]
    after: Vec<String>,

    /// Run when one of the jobs of --after has ended, instead of all
    #[arg(long, help_heading = "Schedule", requires = "after")]
    after_any: bool,

    /// Time zone of --cron and --at
    #[arg(long, alias = "timezone", value_name = "ZONE", help_heading = "Schedule")]
    tz: Option<String>,

    /// Call an address
    #[arg(long, value_name = "URL", help_heading = "Action", group = "what")]
    http: Option<String>,

    /// Method of --http [default: POST]
    #[arg(long, value_name = "METHOD", help_heading = "Action", requires = "http")]
    method: Option<String>,

    /// Header of --http, as in 'Accept: text/plain'
    #[arg(long, value_name = "HEADER", help_heading = "Action", requires = "http")]
    header: Vec<String>,

    /// Body of --http; @FILE reads it from a file, @- from stdin
    #[arg(long, value_name = "TEXT", help_heading = "Action", requires = "http")]
    body: Option<String>,

    /// Run statements in a database; @FILE reads them from a file, @- from stdin
    #[arg(long, value_name = "TEXT", help_heading = "Action", group = "what")]
    sql: Option<String>,

    /// Call a procedure of a database
    #[arg(long, value_name = "NAME", help_heading = "Action", group = "what")]
    procedure: Option<String>,

    /// Argument of --procedure, as JSON or as text
    #[arg(
        long = "argument",
        value_name = "VALUE",
        help_heading = "Action",
        requires = "procedure"
    )]
    arguments: Vec<String>,

    /// Database of --sql and --procedure [default: the configuration's]
    #[arg(long, value_name = "NAME", help_heading = "Action")]
    database: Option<String>,

    /// Start a program; its arguments follow --
    #[arg(long, value_name = "PROGRAM", help_heading = "Action", group = "what")]
    command: Option<String>,

    /// Let /bin/sh run a text
    #[arg(long, value_name = "TEXT", help_heading = "Action", group = "what")]
    shell: Option<String>,

    /// Run a version of an artifact: name@3, name, or name@latest with --floating
    #[arg(long, value_name = "NAME@VERSION", help_heading = "Action", group = "what")]
    artifact: Option<String>,

    /// What to execute of --artifact: module:function of Python, or the path of a program; its
    /// arguments follow --
    #[arg(long, value_name = "ENTRYPOINT", help_heading = "Action", requires = "artifact")]
    entrypoint: Option<String>,

    /// Let each run take the newest version of --artifact
    #[arg(long, help_heading = "Action", requires = "artifact")]
    floating: bool,

    /// Variable for --command, --shell and --artifact
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Action")]
    env: Vec<String>,

    /// Send a message to a queue
    #[arg(long, value_name = "QUEUE", help_heading = "Action", group = "what")]
    send_to: Option<String>,

    /// Payload of --send-to, as JSON or as text
    #[arg(long, value_name = "VALUE", help_heading = "Action", requires = "send_to")]
    message: Option<String>,

    /// Workspace of --send-to
    #[arg(long, value_name = "NAME", help_heading = "Action", requires = "send_to")]
    workspace: Option<String>,

    /// End with the outcome of the message of --send-to, and not when it is on disk
    #[arg(long = "await", help_heading = "Action", requires = "send_to")]
    awaits: bool,

    /// Make a backup of the server in a target of its settings
    #[arg(long, value_name = "TARGET", help_heading = "Action", group = "what")]
    backup: Option<String>,

    /// How many backups stay in the target of --backup [default: all]
    #[arg(long, value_name = "N", help_heading = "Action", requires = "backup")]
    keep: Option<u32>,

    /// Include the archives of artifacts in --backup
    #[arg(long, help_heading = "Action", requires = "backup")]
    with_artifacts: bool,

    /// Do nothing, successfully
    #[arg(long, help_heading = "Action", group = "what")]
    noop: bool,

    /// Program and arguments, or the arguments of --command
    #[arg(last = true, value_name = "COMMAND")]
    words: Vec<String>,

    #[command(flatten)]
    policies: PolicyFlags,

    /// How many times a failed attempt is retried [default: 2, so 3 attempts; in SQL MAX_RETRIES = 3]
    #[arg(long, value_name = "N", help_heading = "Policies")]
    retries: Option<u32>,

    /// Delay before the first retry; it doubles with each [default: 60s]
    #[arg(long, value_name = "DURATION", help_heading = "Policies", value_parser = seconds)]
    backoff: Option<Seconds>,

    /// Label of the nodes that may execute it; may be given several times
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Policies", value_delimiter = ',')]
    run_on: Vec<String>,

    /// Word to find the job by; may be given several times
    #[arg(
        long, value_name = "TAG", help_heading = "Policies", value_delimiter = ',',
        allow_hyphen_values = true, value_parser = tag,
    )]
    tag: Vec<String>,

    /// Pool in which a run takes a place before it begins, and how much it takes [default: 1]
    #[arg(long, value_name = "NAME[:WEIGHT]", help_heading = "Policies", value_parser = pool)]
    pool: Option<PoolFlag>,

    #[command(flatten)]
    spread: SpreadFlags,

    /// Do not run on the days of a calendar; NAME:next and NAME:previous move such times to the
    /// next or previous day on which the job runs. May be given several times
    #[arg(long, value_name = "NAME", help_heading = "Schedule")]
    exclude_calendar: Vec<String>,

    /// Run on no other days than those of a calendar
    #[arg(long, value_name = "NAME", help_heading = "Schedule")]
    include_calendar: Vec<String>,

    /// Use no calendar
    #[arg(
        long, help_heading = "Schedule",
        conflicts_with_all = ["exclude_calendar", "include_calendar"],
    )]
    no_calendar: bool,
}

/// A calendar as REST takes it: `holidays`, `holidays:next`.
fn calendar(mode: &str, text: &str) -> Value {
    let (name, shift) = match text.rsplit_once(':') {
        Some((name, shift)) => (name, shift.to_ascii_uppercase()),
        None => (text, "SKIP".to_owned()),
    };
    json!({ "calendar": name, "mode": mode, "shift": shift })
}

/// A pool as JSON shows it.
#[derive(Clone, Debug)]
pub struct PoolFlag(Value);

fn pool(text: &str) -> Result<PoolFlag, String> {
    let Some((name, weight)) = text.split_once(':') else {
        return Ok(PoolFlag(json!({"name": text})));
    };
    let weight: u32 = weight.parse().map_err(|_| format!("{weight:?} is no weight"))?;
    Ok(PoolFlag(json!({"name": name, "weight": weight})))
}

/// Seconds as JSON shows them.
#[derive(Clone, Debug)]
pub struct Seconds(pub Value);

/// A tag, with a sign where one is added or removed. A text that begins with `--` is refused,
/// because it is a misplaced option.
fn tag(text: &str) -> Result<String, String> {
    match text.starts_with("--") {
        true => Err("a tag does not begin with --".to_owned()),
        false => Ok(text.to_owned()),
    }
}

pub fn seconds(text: &str) -> Result<Seconds, String> {
    let duration = parse_duration(text).map_err(|error| error.problem)?;
    Ok(Seconds(match duration.subsec_nanos() {
        0 => duration.as_secs().into(),
        _ => duration.as_secs_f64().into(),
    }))
}

impl JobFlags {
    /// The fields that were named, none of those that were not.
    pub fn fields(self) -> Result<Map<String, Value>, Failure> {
        let mut fields = Map::new();
        self.add_schedule(&mut fields)?;
        fields.extend(self.policies.0.clone());
        self.add_policies(&mut fields);
        self.add_labels(&mut fields)?;
        self.spread.add(&mut fields)?;
        if let Some(payload) = self.payload()? {
            fields.insert("payload".into(), payload);
        }
        Ok(fields)
    }

    fn add_schedule(&self, fields: &mut Map<String, Value>) -> Result<(), Failure> {
        let mut when = |kind: &str, field: &str, value: Value| {
            fields.insert("job_type".into(), kind.into());
            fields.insert(field.into(), value);
        };
        if let Some(expression) = &self.cron {
            when("CRON", "cron_expression", expression.clone().into());
        }
        if let Some(Seconds(interval)) = &self.every {
            when("INTERVAL", "interval_seconds", interval.clone());
        }
        if let Some(at) = &self.at {
            let at = times::future_in(self.tz.as_deref(), at).map_err(|forms| {
                CliError::new(format!("--at: {at:?} is not a time")).hint(forms)
            })?;
            when("ONE_TIME", "run_at", at.into());
        }
        if let Some(Seconds(delay)) = &self.delay {
            when("DELAYED", "delay_seconds", delay.clone());
        }
        if let Some(zone) = &self.tz {
            fields.insert("timezone".into(), zone.clone().into());
        }
        let excluded = self.exclude_calendar.iter().map(|text| calendar("EXCLUDE", text));
        let included = self.include_calendar.iter().map(|text| calendar("INCLUDE", text));
        let calendars: Vec<Value> = excluded.chain(included).collect();
        if self.no_calendar || !calendars.is_empty() {
            fields.insert("calendars".into(), calendars.into());
        }
        if !self.after.is_empty() {
            let upstream: Vec<Value> =
                self.after.iter().map(|text| upstream(text)).collect::<Result<_, _>>()?;
            fields.insert("depends_on".into(), upstream.into());
            if self.after_any {
                fields.insert("dependency_rule".into(), "ANY".into());
            }
            fields.entry("job_type").or_insert_with(|| "DEPENDENT".into());
        }
        Ok(())
    }

    fn add_policies(&self, fields: &mut Map<String, Value>) {
        let mut retry = Map::new();
        if let Some(retries) = self.retries {
            retry.insert("max_attempts".into(), retries.saturating_add(1).into());
        }
        if let Some(Seconds(backoff)) = &self.backoff {
            retry.insert("backoff_seconds".into(), backoff.clone());
        }
        let named = [
            ("retry_config", (!retry.is_empty()).then(|| retry.into())),
            ("pool", self.pool.as_ref().map(|pool| pool.0.clone())),
            ("tags", (!self.tag.is_empty()).then(|| self.tag.clone().into())),
        ];
        for (field, value) in named {
            if let Some(value) = value {
                fields.insert(field.into(), value);
            }
        }
    }

    fn add_labels(&self, fields: &mut Map<String, Value>) -> Result<(), Failure> {
        if self.run_on.is_empty() {
            return Ok(());
        }
        let labels: Labels = self.run_on.join(",").parse().map_err(|error: LabelError| {
            CliError::new(format!("--run-on: {error}")).hint("a label looks like zone=eu")
        })?;
        let labels: Map<String, Value> =
            labels.0.into_iter().map(|(key, value)| (key, value.into())).collect();
        fields.insert("run_on".into(), labels.into());
        Ok(())
    }

    fn payload(&self) -> Result<Option<Value>, Failure> {
        if let Some(endpoint) = &self.http {
            let mut payload = json!({"type": "HTTP", "endpoint": endpoint});
            if let Some(method) = &self.method {
                payload["method"] = method.to_ascii_uppercase().into();
            }
            for header in &self.header {
                let Some((name, value)) = header.split_once(':') else {
                    let error = CliError::new(format!("--header {header:?} has no colon"));
                    return Err(error.hint("a header looks like 'Accept: text/plain'").into());
                };
                payload["headers"][name.trim()] = value.trim().into();
            }
            if let Some(body) = &self.body {
                let text = text_or_file(body)?;
                // A text that is JSON is sent as JSON, every other one as it is.
                payload["body"] = serde_json::from_str(&text).unwrap_or(Value::String(text));
            }
            return self.without_words(payload);
        }
        let with_database = |mut payload: Value| {
            if let Some(database) = &self.database {
                payload["database"] = database.clone().into();
            }
            payload
        };
        if let Some(sql) = &self.sql {
            let payload = json!({"type": "SQL", "sql": text_or_file(sql)?});
            return self.without_words(with_database(payload));
        }
        if let Some(procedure) = &self.procedure {
            let read = |text: &String| {
                serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
            };
            let arguments: Vec<Value> = self.arguments.iter().map(read).collect();
            let payload =
                json!({"type": "PROCEDURE", "procedure": procedure, "arguments": arguments});
            return self.without_words(with_database(payload));
        }
        if let Some(queue) = &self.send_to {
            let mut payload = json!({"type": "QUEUE", "queue": queue});
            if let Some(message) = &self.message {
                let text = text_or_file(message)?;
                payload["message"] = serde_json::from_str(&text).unwrap_or(Value::String(text));
            }
            if let Some(workspace) = &self.workspace {
                payload["workspace"] = workspace.clone().into();
            }
            if self.awaits {
                payload["await"] = true.into();
            }
            return self.without_words(payload);
        }
        if let Some(target) = &self.backup {
            let mut payload = json!({"type": "BACKUP", "target": target});
            if let Some(keep) = self.keep {
                payload["keep"] = keep.into();
            }
            if self.with_artifacts {
                payload["artifacts"] = true.into();
            }
            return self.without_words(payload);
        }
        if self.noop {
            return self.without_words(json!({"type": "NOOP"}));
        }
        if let Some(artifact) = &self.artifact {
            let mut payload = json!({"type": "ARTIFACT", "artifact_id": artifact});
            if let Some(entrypoint) = &self.entrypoint {
                payload["entrypoint"] = entrypoint.clone().into();
            }
            if self.floating {
                payload["floating"] = true.into();
            }
            if !self.words.is_empty() {
                payload["arguments"] = self.words.clone().into();
            }
            self.add_variables(&mut payload)?;
            return Ok(Some(payload));
        }
        let (command, arguments) = match (&self.command, &self.shell, self.words.split_first()) {
            (Some(command), ..) => (command.clone(), self.words.clone()),
            (None, Some(text), None) => ("/bin/sh".to_owned(), vec!["-c".to_owned(), text.clone()]),
            (None, Some(_), Some(_)) => return self.without_words(Value::Null),
            (None, None, Some((command, arguments))) => (command.clone(), arguments.to_vec()),
            (None, None, None) => return Ok(None),
        };
        let mut payload = json!({"type": "EXTERNAL", "command": command});
        if !arguments.is_empty() {
            payload["arguments"] = arguments.into();
        }
        self.add_variables(&mut payload)?;
        Ok(Some(payload))
    }

    fn add_variables(&self, payload: &mut Value) -> Result<(), Failure> {
        for variable in &self.env {
            let Some((name, value)) = variable.split_once('=') else {
                let error = CliError::new(format!("--env {variable:?} has no value"));
                return Err(error.hint("a variable looks like NAME=VALUE").into());
            };
            payload["environment"][name] = value.into();
        }
        Ok(())
    }

    /// Words behind `--` belong to a command.
    fn without_words(&self, payload: Value) -> Result<Option<Value>, Failure> {
        if self.words.is_empty() {
            return Ok(Some(payload));
        }
        let error = CliError::new("the words behind -- belong to no command");
        Err(error.hint("give one action: --http, --sql, --command, … or -- COMMAND").into())
    }
}

fn upstream(text: &str) -> Result<Value, Failure> {
    let (job, on) = text.rsplit_once(':').unwrap_or((text, "success"));
    if !matches!(on, "success" | "failure" | "completion") {
        return Err(CliError::new(format!("--after {text:?}: {on:?} is no end of a job"))
            .hint("write JOB, JOB:success, JOB:failure or JOB:completion")
            .into());
    }
    Ok(json!({"job": job, "on": on.to_ascii_uppercase()}))
}

/// A text as it is, or what `@FILE` holds.
fn text_or_file(text: &str) -> Result<String, Failure> {
    let Some(file) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    if file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(file)
        .map_err(|error| Failure::failed(format!("cannot read {file}: {error}")))
}

#[cfg(test)]
mod tests;
