//! `~/.config/punctual/config.toml`: the servers that this machine knows by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli_error::CliError;
use crate::config::environment;
use crate::data::write_private;
use crate::exit::Failure;

/// The servers, and the one of commands that name none.
#[derive(Deserialize, Serialize, Default, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The context of commands that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The servers by name.
    #[serde(default)]
    pub contexts: BTreeMap<String, ServerContext>,
}

/// A server.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ServerContext {
    /// Its address.
    pub url: String,
    /// The key for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The file of the key for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The tenant to act in, when no option and no variable names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// The folder of the file and of the keys that `login` keeps.
pub fn folder(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let config = variable("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")));
    config.map(|config| config.join("punctual"))
}

/// The folder that the environment of this process names.
pub fn own_folder() -> Result<PathBuf, Failure> {
    let environment = environment();
    let variable = |name: &str| {
        let found = environment.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.clone())
    };
    folder(&variable).ok_or_else(|| {
        CliError::new("cannot find the folder for contexts")
            .hint("set HOME or XDG_CONFIG_HOME")
            .into()
    })
}

/// The file in a folder.
pub fn file_in(folder: &Path) -> PathBuf {
    folder.join("config.toml")
}

impl Contexts {
    /// Reads a file of contexts; a missing file is empty.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        let Ok(text) = fs::read_to_string(file) else { return Ok(Contexts::default()) };
        toml::from_str(&text).map_err(|error| {
            CliError::new(format!("{}: {}", file.display(), error.message()))
                .hint(
                    "it has `current = \"NAME\"` and for each server [contexts.NAME] \
                     with url, and token or token_file",
                )
                .into()
        })
    }

    /// Writes it, for its owner alone.
    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        let cannot =
            |error: String| Failure::failed(format!("cannot write {}: {error}", file.display()));
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| cannot(error.to_string()))?;
        }
        let text = toml::to_string(self).map_err(|error| cannot(error.to_string()))?;
        write_private(file, text.trim_end()).map_err(|error| cannot(error.to_string()))
    }

    /// The failure of a command that names a context that is not there.
    pub fn missing(&self, name: &str, file: &Path) -> Failure {
        let known: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
        let error = CliError::new(format!("there is no context {name:?} in {}", file.display()));
        match known.is_empty() {
            true => error.hint("add one with punctual login URL"),
            false => error.hint(format!("there are {}", known.join(", "))),
        }
        .into()
    }
}
