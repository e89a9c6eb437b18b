//! A crontab, line by line: the jobs that it means, and what does not carry over.
//!
//! The reading is Vixie cron's, with cronie's `CRON_TZ` and `RANDOM_DELAY`. A line that has no
//! equivalent is refused with the reason; nothing is guessed.

mod name;
mod percent;

use std::collections::BTreeMap;

use domain::schedule::{Cron, Zones};
use serde_json::{Map, Value, json};

/// Defaults for facts that the file does not contain.
pub struct CrontabDefaults<'a> {
    /// Whether the sixth field names a user, as in `/etc/crontab` and `/etc/cron.d`.
    pub system: bool,
    /// The zone of the machine that the crontab is from.
    pub zone: &'a str,
    /// Put in front of every name.
    pub prefix: &'a str,
}

/// One line of the file and its meaning.
#[derive(Debug, PartialEq)]
pub struct CrontabLine {
    /// Its number, from 1.
    pub number: usize,
    pub verdict: LineMeaning,
    /// Differences from cron, and other notes for the user.
    pub notes: Vec<String>,
}

/// The meaning of a line.
#[derive(Debug, PartialEq)]
pub enum LineMeaning {
    /// A job, as a document.
    Job(Value),
    /// A setting of the lines that follow.
    Setting(String),
    /// Nothing that can be imported, and why.
    Refused(String),
}

/// Reads a crontab. Blank lines and comments have no verdict.
pub fn read(text: &str, reading: &CrontabDefaults<'_>, zones: &Zones) -> Vec<CrontabLine> {
    let mut reader = CrontabReader {
        reading,
        zones,
        zone: reading.zone.to_owned(),
        shell: "/bin/sh".to_owned(),
        delay_minutes: 0,
        environment: BTreeMap::new(),
        names: name::Names::default(),
        comment: Vec::new(),
    };
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| reader.line(index + 1, line)).collect()
}

struct CrontabReader<'a> {
    reading: &'a CrontabDefaults<'a>,
    zones: &'a Zones,
    zone: String,
    shell: String,
    delay_minutes: u64,
    environment: BTreeMap<String, String>,
    names: name::Names,
    /// The comment right above, which describes the job below it.
    comment: Vec<String>,
}

impl CrontabReader<'_> {
    fn line(&mut self, number: usize, line: &str) -> Option<CrontabLine> {
        let line = line.trim_start();
        if line.trim_end().is_empty() {
            self.comment.clear();
            return None;
        }
        if let Some(comment) = line.strip_prefix('#') {
            self.comment.push(comment.trim_matches('#').trim().to_owned());
            return None;
        }
        let comment = std::mem::take(&mut self.comment);
        let mut notes = Vec::new();
        let verdict = match assignment(line) {
            Some((name, value)) => self.setting(name, value, &mut notes),
            None => match self.entry(line, comment, &mut notes) {
                Ok(document) => LineMeaning::Job(document),
                Err(why) => LineMeaning::Refused(why),
            },
        };
        Some(CrontabLine { number, verdict, notes })
    }

    /// A setting holds for every line below it.
    fn setting(&mut self, name: String, value: String, notes: &mut Vec<String>) -> LineMeaning {
        match name.as_str() {
            "CRON_TZ" => match self.zones.find(&value) {
                Ok(_) => self.zone.clone_from(&value),
                Err(error) => {
                    return LineMeaning::Refused(format!("CRON_TZ: {error}; it is ignored"));
                }
            },
            "SHELL" => self.shell.clone_from(&value),
            "RANDOM_DELAY" => match value.parse() {
                Ok(minutes) => self.delay_minutes = minutes,
                Err(_) => {
                    return LineMeaning::Refused(format!(
                        "RANDOM_DELAY: {value:?} is not a number of minutes; it is ignored"
                    ));
                }
            },
            "MAILTO" | "MAILFROM" => notes.push(
                "no mail is sent: output is kept with each run (punctual run logs), and alerts \
                 tell about failures"
                    .to_owned(),
            ),
            "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {
                notes.push("it is about mail, and is left out".to_owned());
            }
            _ => {
                if name == "TZ" {
                    notes.push(
                        "the commands see it; the times of the lines follow CRON_TZ, not TZ"
                            .to_owned(),
                    );
                }
                self.environment.insert(name.clone(), value.clone());
            }
        }
        LineMeaning::Setting(format!("{name}={value}"))
    }

    fn entry(
        &mut self,
        line: &str,
        comment: Vec<String>,
        notes: &mut Vec<String>,
    ) -> Result<Value, String> {
        let line = match line.strip_prefix('-') {
            Some(rest) => {
                notes.push("the leading - (no log entry) is left out".to_owned());
                rest
            }
            None => line,
        };
        let (schedule, rest) = if line.starts_with('@') { words(line, 1) } else { words(line, 5) }
            .ok_or("a line has five fields, or a macro such as @daily, and then a command")?;
        let (user, command) = if self.reading.system {
            let (user, command) = words(rest, 1)
                .ok_or("a line of a system crontab names a user and then a command")?;
            (Some(user), command)
        } else {
            (None, rest)
        };
        if command.trim().is_empty() {
            return Err("the command is missing".to_owned());
        }
        let schedule = expression(&schedule, command)?;
        let (text, input) = percent::split(command);
        let mut document = Map::new();
        let own_name = self.names.unique(self.reading.prefix, &name::of_command(&text));
        document.insert("name".into(), own_name.into());
        let comment = comment.join(" ");
        if !comment.trim().is_empty() {
            document.insert("description".into(), comment.trim().into());
        }
        document.insert("job_type".into(), "CRON".into());
        document.insert("cron_expression".into(), schedule.into());
        document.insert("timezone".into(), self.zone.clone().into());
        let mut script = match input {
            Some(input) => {
                notes.push("what follows % is handed to the command as a here-document".to_owned());
                percent::here_document(&text, &input)
            }
            None => text,
        };
        let mut environment = None;
        if is_bourne(&self.shell) {
            // A server lets no job set PATH and its like; its own shell may.
            for (name, value) in self.environment.iter().rev() {
                let value = value.replace('\'', "'\\''");
                script = format!("export {name}='{value}'\n{script}");
            }
        } else {
            notes.push(format!("{} must read what /bin/sh would", self.shell));
            environment = (!self.environment.is_empty()).then(|| json!(self.environment));
        }
        let mut payload = json!({
            "type": "EXTERNAL",
            "command": self.shell,
            "arguments": ["-c", script],
        });
        if let Some(environment) = environment {
            payload["environment"] = environment;
        }
        document.insert("payload".into(), payload);
        // Cron starts a line whatever runs already, never again, and forgets what it missed.
        document.insert("overlap".into(), "ALLOW".into());
        document.insert("retry_config".into(), json!({"max_attempts": 1}));
        document.insert("catch_up".into(), "NONE".into());
        if self.delay_minutes > 0 {
            document.insert("jitter_seconds".into(), (self.delay_minutes * 60).into());
        }
        if let Some(user) = user {
            notes.push(format!("cron ran it as {user}; here it runs as the agent's own user"));
        }
        document.insert("tags".into(), json!(["crontab"]));
        Ok(Value::Object(document))
    }
}

/// Whether a shell reads what `sh` does.
fn is_bourne(shell: &str) -> bool {
    let name = shell.rsplit('/').next().unwrap_or(shell);
    matches!(name, "sh" | "ash" | "bash" | "dash" | "ksh" | "mksh" | "zsh")
}

/// The expression of a schedule, in the words that Punctual knows.
fn expression(schedule: &str, command: &str) -> Result<String, String> {
    let schedule = schedule.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    match schedule.as_str() {
        "@reboot" => {
            return Err(format!(
                "@reboot is about this machine's start, not about time: let the machine's init \
                 system start it (a systemd unit with ExecStart={})",
                command.trim()
            ));
        }
        "@every_minute" => return Ok("* * * * *".to_owned()),
        _ => {}
    }
    if schedule.contains('~') {
        return Err(format!(
            "{schedule}: a random time (~) is drawn anew at each start of cron; choose a fixed \
             time, or a range of starts with jitter_seconds"
        ));
    }
    match schedule.parse::<Cron>() {
        Ok(_) => Ok(schedule),
        Err(error) => Err(match &error.hint {
            Some(hint) => format!("{schedule}: {error} ({hint})"),
            None => format!("{schedule}: {error}"),
        }),
    }
}

/// The first words of a line, and what follows the blanks behind them.
fn words(line: &str, count: usize) -> Option<(String, &str)> {
    let mut rest = line;
    let mut found = Vec::with_capacity(count);
    for _ in 0..count {
        rest = rest.trim_start_matches([' ', '\t']);
        let end = rest.find([' ', '\t'])?;
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    Some((found.join(" "), rest.trim_start_matches([' ', '\t'])))
}

/// `NAME = value`, each with or without quotes.
fn assignment(line: &str) -> Option<(String, String)> {
    let (name, rest) = match line.chars().next()? {
        quote @ ('"' | '\'') => {
            let (name, rest) = line[1..].split_once(quote)?;
            (name, rest)
        }
        _ => line.split_at(line.find([' ', '\t', '='])?),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let value = rest.trim_start().strip_prefix('=')?.trim();
    if name.is_empty()
        || !name.chars().all(is_name)
        || name.starts_with(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    let quoted = |quote: char| {
        value
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
            .filter(|_| value.len() > 1)
    };
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    Some((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests;
