//! Settings: flag, then environment, then file, then default; the only reader of the environment.
//!
//! Every setting has one row in [`KEYS`]. Its name is its path in the file; its variable is
//! `PUNCTUAL_` and the name in capitals, with two underscores for a dot. A secret can also be in a
//! file, whose path is in the variable with `_FILE` at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use domain::schedule::parse_duration;
use jiff::SignedDuration;

use crate::cli_error::CliError;

mod keys;

pub use keys::{KEYS, SettingKey};

/// Tables of settings whose names are made up by the administrator; their values are secrets.
const TABLES: &[(&str, &str)] = &[
    (
        "databases",
        "where SQL jobs of the tenant `default` may work, by name: `postgres://user@host/name` or `sqlite:/path/to/file.db`",
    ),
    (
        "backup.targets",
        "where backups may go, by name: `/path/to/folder`, or object storage as in `artifacts.url`",
    ),
];

/// Variables of ours that are not settings of the server.
const OTHER_VARIABLES: &[&str] = &[
    "PUNCTUAL_CONFIG",
    "PUNCTUAL_CONTEXT",
    "PUNCTUAL_SERVER",
    "PUNCTUAL_TENANT",
    "PUNCTUAL_TOKEN",
    "PUNCTUAL_TOKEN_FILE",
];

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The built-in default.
    Default,
    File(PathBuf),
    /// A variable of the environment.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::Default => f.write_str("default"),
            SettingOrigin::File(path) => write!(f, "{}", path.display()),
            SettingOrigin::Environment(name) => write!(f, "${name}"),
            SettingOrigin::Flag(name) => f.write_str(name),
        }
    }
}

/// Every setting with its value and where that comes from.
pub struct Config {
    values: BTreeMap<&'static str, (String, SettingOrigin)>,
    /// By table and name.
    named: BTreeMap<(&'static str, String), (String, SettingOrigin)>,
    /// The files that values were read from.
    files: BTreeSet<PathBuf>,
}

/// The sources of settings: flags, file, environment.
pub struct Sources {
    /// Flags, by the name of their setting.
    pub flags: Vec<(&'static str, String)>,
    /// The file that a flag names.
    pub file: Option<PathBuf>,
    pub environment: Vec<(String, String)>,
}

/// The environment of this process.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub fn environment() -> Vec<(String, String)> {
    let text = |value: std::ffi::OsString| value.into_string().ok();
    std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

impl Config {
    /// Puts the sources together. Every value is checked, and so is every name.
    pub fn load(sources: Sources) -> Result<Self, CliError> {
        let mut config = Config {
            values: KEYS
                .iter()
                .map(|key| (key.name, (key.default.to_owned(), SettingOrigin::Default)))
                .collect(),
            named: BTreeMap::new(),
            files: BTreeSet::new(),
        };
        let named = |name: &str| {
            let found = sources.environment.iter().find(|(variable, _)| variable == name);
            found.map(|(_, value)| value.as_str())
        };
        let given = sources.file.clone().or_else(|| named("PUNCTUAL_CONFIG").map(PathBuf::from));
        match given {
            Some(path) => config.read_file(&path)?,
            None => {
                let usual = ["punctual.toml", "/etc/punctual/punctual.toml"].map(Path::new);
                if let Some(path) = usual.into_iter().find(|path| path.exists()) {
                    config.read_file(path)?;
                }
            }
        }
        if let Some(log) = named("RUST_LOG") {
            config.set("log", log.to_owned(), SettingOrigin::Environment("RUST_LOG".into()));
        }
        if let Some(folder) = named("CREDENTIALS_DIRECTORY") {
            config.read_credentials(Path::new(folder))?;
        }
        config.read_environment(&sources.environment)?;
        for (name, value) in sources.flags {
            let flag = format!("--{}", name.replace('_', "-"));
            config.set(name, value, SettingOrigin::Flag(flag));
        }
        Ok(config)
    }

    fn set(&mut self, name: &'static str, value: String, origin: SettingOrigin) {
        self.values.insert(name, (value, origin));
    }

    fn read_file(&mut self, path: &Path) -> Result<(), CliError> {
        let text = self.read(path)?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            CliError::new(format!("{}: {}", path.display(), error.message()))
        })?;
        let mut values = Vec::new();
        flatten("", &toml::Value::Table(table), &mut values);
        for (name, value) in values {
            if let Some((table, name)) = in_table(&name)
                && let Some(value) = value
            {
                self.named.insert((table, name), (value, SettingOrigin::File(path.to_owned())));
                continue;
            }
            let key = known(&name).ok_or_else(|| {
                let names = KEYS.iter().map(|key| key.name.to_owned());
                unknown(format!("{}: there is no setting {name:?}", path.display()), &name, names)
            })?;
            let value = value.ok_or_else(|| {
                CliError::new(format!("{}: {name} must be a plain value", path.display()))
            })?;
            self.set(key.name, value, SettingOrigin::File(path.to_owned()));
        }
        Ok(())
    }

    fn read_environment(&mut self, environment: &[(String, String)]) -> Result<(), CliError> {
        let told_to_jobs = agent::context::FACTS.iter().map(|fact| fact.variable);
        let others: Vec<&str> = OTHER_VARIABLES.iter().copied().chain(told_to_jobs).collect();
        for (variable, value) in environment {
            let Some(rest) = variable.strip_prefix("PUNCTUAL_") else { continue };
            if others.contains(&variable.as_str()) {
                continue;
            }
            let name = rest.to_ascii_lowercase().replace("__", ".");
            let origin = SettingOrigin::Environment(variable.clone());
            if let Some(key) = known(&name) {
                self.set(key.name, value.clone(), origin);
                continue;
            }
            if let Some((table, name)) = in_table(&name) {
                self.named.insert((table, name), (value.clone(), origin));
                continue;
            }
            let in_file = name.strip_suffix("_file").and_then(known).filter(|key| key.is_secret);
            let Some(key) = in_file else {
                let names = KEYS.iter().map(|key| variable_of(key.name));
                let text = format!("there is no setting of the variable {variable}");
                return Err(unknown(text, variable, names));
            };
            let text = self.read(Path::new(value))?;
            self.set(key.name, text.trim().to_owned(), origin);
        }
        Ok(())
    }

    /// Secrets that the service manager hands over as files, by the name of their setting.
    fn read_credentials(&mut self, folder: &Path) -> Result<(), CliError> {
        for key in KEYS.iter().filter(|key| key.is_secret) {
            let path = folder.join(key.name);
            if path.exists() {
                let text = self.read(&path)?;
                self.set(key.name, text.trim().to_owned(), SettingOrigin::File(path));
            }
        }
        Ok(())
    }

    /// The text of a file, which is remembered: it may hold secrets.
    fn read(&mut self, path: &Path) -> Result<String, CliError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| CliError::new(format!("{} cannot be read: {error}", path.display())));
        self.files.insert(path.to_owned());
        text
    }

    /// The files that settings were read from.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// Every setting: its row, its value, where that comes from.
    pub fn all(&self) -> impl Iterator<Item = (&'static SettingKey, &str, &SettingOrigin)> {
        KEYS.iter().map(|key| {
            let (value, origin) = &self.values[key.name];
            (key, value.as_str(), origin)
        })
    }

    /// The names of a table and their values.
    pub fn named(&self, table: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let all = self.named.iter().filter(move |((of, _), _)| *of == table);
        all.map(|((_, name), (value, _))| (name.as_str(), value.as_str()))
    }

    /// Every name of every table, and where its value comes from.
    pub fn all_named(&self) -> impl Iterator<Item = (String, &'static str, &SettingOrigin)> {
        self.named.iter().map(|((table, name), (_, origin))| {
            let meaning = TABLES.iter().find(|(of, _)| of == table).map_or("", |(_, text)| *text);
            (format!("{table}.{name}"), meaning, origin)
        })
    }

    /// The value of a setting.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", |(value, _)| value)
    }

    /// The value of a setting that is a list.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        self.text(name).split(',').map(str::trim).filter(|item| !item.is_empty())
    }

    /// The value of a setting as something that is made from text.
    pub fn parse<T: std::str::FromStr>(&self, name: &str, right: &str) -> Result<T, CliError> {
        self.text(name).parse().map_err(|_| self.wrong(name, right))
    }

    /// The value of a setting that may be empty.
    pub fn parse_optional<T: std::str::FromStr>(
        &self,
        name: &str,
        right: &str,
    ) -> Result<Option<T>, CliError> {
        if self.text(name).is_empty() { Ok(None) } else { self.parse(name, right).map(Some) }
    }

    /// The value of a setting as a duration that is not zero.
    pub fn duration(&self, name: &str) -> Result<SignedDuration, CliError> {
        match parse_duration(self.text(name)) {
            Ok(duration) if duration.is_positive() => Ok(duration),
            Ok(_) => Err(self.wrong(name, "a duration longer than nothing")),
            Err(error) => Err(self.wrong(name, &error.problem)),
        }
    }

    /// Whether a file, a variable or a flag sets it.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|(_, origin)| *origin != SettingOrigin::Default)
    }

    /// The error about a value.
    pub fn wrong(&self, name: &str, right: &str) -> CliError {
        let (value, origin) = &self.values[name];
        let is_secret = known(name).is_some_and(|key| key.is_secret);
        let shown = if is_secret { String::new() } else { format!(" {value:?}") };
        CliError::new(format!("{name}: invalid value{shown} (from {origin})"))
            .hint(format!("it must be {right}"))
    }
}

fn known(name: &str) -> Option<&'static SettingKey> {
    KEYS.iter().find(|key| key.name == name)
}

/// The table and the rest of a name that begins with one.
fn in_table(name: &str) -> Option<(&'static str, String)> {
    let within = |table: &str| name.strip_prefix(table)?.strip_prefix('.');
    let (table, rest) = TABLES.iter().find_map(|(table, _)| Some((*table, within(table)?)))?;
    let harmless = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (!rest.is_empty() && rest.chars().all(harmless)).then(|| (table, rest.to_owned()))
}

/// The variable of a setting.
fn variable_of(name: &str) -> String {
    format!("PUNCTUAL_{}", name.replace('.', "__").to_ascii_uppercase())
}

fn unknown(text: String, name: &str, names: impl Iterator<Item = String>) -> CliError {
    let nearest = names
        .map(|known| (strsim::damerau_levenshtein(name, &known), known))
        .min()
        .filter(|(distance, known)| *distance <= 2 + known.len() / 5);
    match nearest {
        Some((_, known)) => CliError::new(text).hint(format!("did you mean {known}?")),
        None => CliError::new(text).hint("punctual config show lists every setting"),
    }
}

/// The values of a file by their paths; none for what is not a plain value.
fn flatten(path: &str, value: &toml::Value, values: &mut Vec<(String, Option<String>)>) {
    let text = match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&path, value, values);
            }
            return;
        }
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(yes) => Some(yes.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Array(items) => items
            .iter()
            .map(toml::Value::as_str)
            .collect::<Option<Vec<&str>>>()
            .map(|items| items.join(",")),
        toml::Value::Datetime(_) => None,
    };
    values.push((path.to_owned(), text));
}

#[cfg(test)]
mod tests;
