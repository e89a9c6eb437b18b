//! The settings of a session: what clients of PostgreSQL send, and what it means here.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::schedule::Zones;
use sql::{AccessMode, Spanned};

use super::answer::{self, setting_column, text};
use super::{Answer, Block, Result, Session, SqlError};
use crate::problem::Code;

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name, as PostgreSQL spells it.
    pub name: &'static str,
    /// Its default value.
    pub default: &'static str,
    /// Whether its value is reported to clients when they connect and when it changes.
    pub is_reported: bool,
    /// The description in SHOW ALL.
    pub about: &'static str,
    check: Check,
}

/// Accepted values of a setting.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// Any text. It means nothing here.
    Any,
    /// Only what it is.
    Fixed,
    /// A time zone.
    Zone,
    /// A time in milliseconds, or with a unit.
    Milliseconds,
    /// UTF-8, under one of its names.
    Utf8,
    /// How dates look; only ISO.
    Iso,
    /// On or off.
    Bool,
}

const fn setting(
    name: &'static str,
    default: &'static str,
    check: Check,
    about: &'static str,
) -> Setting {
    Setting { name, default, is_reported: false, about, check }
}

const fn reported(
    name: &'static str,
    default: &'static str,
    check: Check,
    about: &'static str,
) -> Setting {
    Setting { is_reported: true, ..setting(name, default, check, about) }
}

use Check::{Any, Bool, Fixed, Iso, Milliseconds, Utf8, Zone};

/// `server_version`: clients choose their features by it.
const VERSION: &str = concat!("15.0 (Punctual ", env!("CARGO_PKG_VERSION"), ")");

/// Every setting, by name.
pub const SETTINGS: &[Setting] = &[
    reported("application_name", "", Any, "The program that asks."),
    setting("bytea_output", "hex", Fixed, "How bytes look."),
    reported("client_encoding", "UTF8", Utf8, "How letters are encoded."),
    setting("client_min_messages", "notice", Any, "Which messages are wanted."),
    reported("DateStyle", "ISO, MDY", Iso, "How dates look."),
    setting("default_transaction_isolation", "read committed", Any, "How blocks are isolated."),
    setting(DEFAULT_READ_ONLY, "off", Bool, "Whether transactions only read."),
    setting("extra_float_digits", "1", Any, "How many digits numbers have."),
    setting("idle_in_transaction_session_timeout", "0", Milliseconds, "How long a block may rest."),
    setting("idle_session_timeout", "0", Milliseconds, "How long a session may rest."),
    reported("integer_datetimes", "on", Fixed, "How times are sent."),
    reported("IntervalStyle", "postgres", Any, "How lengths of time look."),
    setting("lc_collate", "C", Fixed, "How texts are ordered."),
    setting("lc_ctype", "C", Fixed, "What letters are."),
    setting("lock_timeout", "0", Milliseconds, "How long a lock is waited for."),
    setting("max_identifier_length", "255", Fixed, "The longest name, in bytes."),
    setting("row_security", "on", Any, "Rows are filtered anyway."),
    setting("search_path", "sys, public", Any, "Where tables without a schema are looked for."),
    reported("server_encoding", "UTF8", Fixed, "How letters are kept."),
    reported("server_version", VERSION, Fixed, "The PostgreSQL that clients may expect."),
    setting("server_version_num", "150000", Fixed, "The same as a number."),
    reported("standard_conforming_strings", "on", Fixed, "A backslash in a text is a backslash."),
    setting("statement_timeout", "0", Milliseconds, "How long a question may take."),
    setting("synchronous_commit", "on", Any, "What is answered is durable anyway."),
    reported("TimeZone", "UTC", Zone, "The zone of local times, and of times that are shown."),
    setting("transaction_isolation", "read committed", Any, "How the block is isolated."),
    setting(READ_ONLY, "off", Bool, "Whether the block only reads."),
];

/// Whether transactions only read if they do not say it themselves.
const DEFAULT_READ_ONLY: &str = "default_transaction_read_only";

/// Whether the block only reads.
const READ_ONLY: &str = "transaction_read_only";

/// Settings of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    set: BTreeMap<&'static str, String>,
    /// Previous values of settings that SET LOCAL has replaced until the end of the block.
    hidden: Vec<(&'static str, Option<String>)>,
    /// Settings with a dot in their name, which programs make up.
    own: BTreeMap<String, String>,
}

/// The most settings that a program may make up.
const OWN_MAX: usize = 100;

/// The longest value.
const VALUE_BYTES_MAX: usize = 4_096;

impl Settings {
    pub(super) fn get(&self, name: &str) -> Option<String> {
        match known(name) {
            Some(setting) => {
                let value = self.set.get(setting.name).map(String::as_str);
                Some(value.unwrap_or(setting.default).to_owned())
            }
            None => self.own.get(name).cloned(),
        }
    }

    pub(super) fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
        is_local: bool,
        zones: &Zones,
    ) -> Result<()> {
        if value.is_some_and(|value| value.len() > VALUE_BYTES_MAX) {
            let text = format!("a value has at most {VALUE_BYTES_MAX} bytes");
            return Err(SqlError::new(Code::ValidationFailed, text));
        }
        let Some(setting) = known(name) else { return self.set_own(name, value) };
        let value = value.map(|value| setting.checked(value, zones)).transpose()?;
        let before = match value {
            Some(value) => self.set.insert(setting.name, value),
            None => self.set.remove(setting.name),
        };
        if is_local {
            self.hidden.push((setting.name, before));
        }
        Ok(())
    }

    fn set_own(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        if !name.contains('.') {
            return Err(unknown(name));
        }
        match value {
            None => drop(self.own.remove(name)),
            Some(_) if self.own.len() >= OWN_MAX && !self.own.contains_key(name) => {
                let text = format!("a session has at most {OWN_MAX} settings of its own");
                return Err(SqlError::new(Code::QuotaExceeded, text));
            }
            Some(value) => drop(self.own.insert(name.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    /// Forgets what was set, but not that the block only reads.
    pub(super) fn reset(&mut self) {
        let read_only = self.set.remove(READ_ONLY);
        *self = Settings::default();
        if let Some(value) = read_only {
            self.set.insert(READ_ONLY, value);
            self.hidden.push((READ_ONLY, None));
        }
    }

    /// Restores the values that SET LOCAL has replaced.
    pub(super) fn end_block(&mut self) {
        while let Some((name, before)) = self.hidden.pop() {
            match before {
                Some(value) => self.set.insert(name, value),
                None => self.set.remove(name),
            };
        }
    }
}

fn known(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
}

/// Whether a setting holds until the end of the block, however it was set.
pub(super) fn is_of_block(name: &str) -> bool {
    name.eq_ignore_ascii_case(READ_ONLY)
}

fn unknown(name: &str) -> SqlError {
    let text = format!("unrecognized configuration parameter \"{name}\"");
    SqlError::new(Code::ValidationFailed, text)
        .with_state("42704")
        .with_hint("SHOW ALL lists the settings.")
}

impl Setting {
    /// A value as it is kept.
    fn checked(&self, value: &str, zones: &Zones) -> Result<String> {
        let wrong = |would_be_right: &str| {
            let text = format!("invalid value for parameter \"{}\": \"{value}\"", self.name);
            SqlError::new(Code::ValidationFailed, text).with_hint(would_be_right)
        };
        match self.check {
            Check::Any => Ok(value.to_owned()),
            Check::Fixed if value.eq_ignore_ascii_case(self.default) => Ok(self.default.to_owned()),
            Check::Fixed => Err(wrong(&format!("It is {} and cannot be changed.", self.default))),
            Check::Utf8 => {
                let name: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
                match name.to_ascii_lowercase().as_str() {
                    "utf8" | "unicode" => Ok("UTF8".to_owned()),
                    _ => Err(wrong("Texts are UTF8.")),
                }
            }
            Check::Iso => {
                let is_iso = value.to_ascii_lowercase().starts_with("iso");
                if is_iso { Ok(self.default.to_owned()) } else { Err(wrong("Dates are ISO.")) }
            }
            Check::Zone => match zones.find(value) {
                Ok(zone) => Ok(zone.name().to_owned()),
                Err(error) => Err(wrong(&error.to_string())),
            },
            Check::Bool => match value.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" | "1" => Ok("on".to_owned()),
                "off" | "false" | "no" | "0" => Ok("off".to_owned()),
                _ => Err(wrong("It is on or off.")),
            },
            Check::Milliseconds => match milliseconds(value) {
                Some(time) => Ok(time.as_millis().to_string()),
                None => Err(wrong("Write 5000 for milliseconds, or 5s.")),
            },
        }
    }
}

/// A time as PostgreSQL writes it: a number is milliseconds.
fn milliseconds(value: &str) -> Option<Duration> {
    if let Ok(number) = value.trim().parse::<u64>() {
        return Some(Duration::from_millis(number));
    }
    let value = value.replace("min", "m");
    let time = domain::schedule::parse_duration(&value).ok()?;
    Duration::try_from(time).ok()
}

impl Session {
    /// How long a question may take; as long as the server lets it when absent.
    pub fn statement_timeout(&self) -> Option<Duration> {
        let value = self.settings.get("statement_timeout")?;
        value.parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// Whether changes are refused: by the block, or outside of one by the default.
    pub(super) fn is_read_only(&self) -> bool {
        let name = match self.block {
            Block::None => DEFAULT_READ_ONLY,
            Block::Open(_) | Block::Failed(_) => READ_ONLY,
        };
        self.settings.get(name).as_deref() == Some("on")
    }

    /// Sets the access mode of a block until its end; the default if none is named.
    pub(super) fn set_access(&mut self, mode: Option<AccessMode>) -> Result<()> {
        let is_open = !matches!(self.block, Block::None);
        let value = match mode {
            None if is_open => return Ok(()),
            None => self.settings.get(DEFAULT_READ_ONLY).unwrap_or_default(),
            Some(mode) => mode.setting().to_owned(),
        };
        self.settings.set(READ_ONLY, Some(&value), true, &self.app.zones)
    }

    /// Settings that are reported to clients when they connect: names and values.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let told = SETTINGS.iter().filter(|setting| setting.is_reported);
        told.filter_map(|setting| Some((setting.name, self.setting(setting.name)?))).collect()
    }

    pub(super) fn show_setting(&self, name: Option<&Spanned<String>>) -> Result<Answer> {
        let Some(name) = name else {
            let row = |setting: &Setting| {
                let value = self.settings.get(setting.name).unwrap_or_default();
                vec![text(setting.name), text(value), text(setting.about)]
            };
            let rows = SETTINGS.iter().map(row).collect();
            return Ok(Answer::rows(answer::SETTINGS, rows));
        };
        let value = match name.value.as_str() {
            "session_authorization" => Some(self.actor.name.clone()),
            "is_superuser" => Some("off".to_owned()),
            name => self.settings.get(name),
        };
        let value = value.ok_or_else(|| unknown(&name.value).or_at(name.at))?;
        let columns = vec![setting_column(&name.value)];
        Ok(Answer { columns, rows: vec![vec![text(value)]], ..Answer::done("SHOW") })
    }
}
