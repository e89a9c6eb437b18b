//! Where the master keys of a server come from: a file of the data folder, or a setting.

use std::path::PathBuf;

use vault::{KeyCustody, MasterKey, Ring};

use crate::cli_error::CliError;
use crate::config::Config;
use crate::data::write_private;

/// The setting of master keys.
const SETTING: &str = "master_key";

/// The master keys of the settings; none when they are left to the data folder.
pub fn from_settings(config: &Config) -> Result<Option<Ring>, CliError> {
    let right = "64 random hex digits; several with commas between them while one is replaced";
    let keys: Vec<MasterKey> = config
        .list(SETTING)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .map_err(|_| config.wrong(SETTING, right))?;
    Ok(Some(Ring::new(keys)).filter(|ring| ring.first().is_some()))
}

/// Keys in a file, one a line, the first of which seals.
pub struct KeyFile(pub PathBuf);

impl KeyCustody for KeyFile {
    fn keep(&self, ring: &Ring) -> Result<(), String> {
        let lines: Vec<_> = ring.keys().iter().map(MasterKey::reveal).collect();
        let lines: Vec<&str> = lines.iter().map(|line| line.as_str()).collect();
        write_private(&self.0, &lines.join("\n"))
            .map_err(|error| format!("{} cannot be written: {error}", self.0.display()))
    }
}

/// Keys that the administrator looks after.
pub struct FromSettings;

impl KeyCustody for FromSettings {
    fn keep(&self, _: &Ring) -> Result<(), String> {
        Err("the master key comes from the setting master_key: put the new key in front of the \
             old one there, on every node, and take the old one away when readiness says that \
             nothing is under it"
            .to_owned())
    }
}
