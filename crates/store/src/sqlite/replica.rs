//! A database that is made of the recorded groups of another one.

use std::path::Path;

use rusqlite::Connection;

use super::command::Group;
use super::counters::Counters;
use super::lock::{self, Lock};
use super::tokens::DrawnTokens;
use super::writer::OpenGroup;
use super::{SqliteOptions, schema};
use crate::{Result, StoreError};

/// Applies recorded groups to a file. The same groups make the same tables, whether the file stays
/// open or is opened anew in between.
pub struct Replica {
    connection: Connection,
    counters: Counters,
    /// Dropped last.
    _lock: Lock,
}

impl Replica {
    /// Opens the file and creates or migrates its tables.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<Self> {
        let lock = lock::lock(path)?;
        let mut connection = schema::open(path, options)?;
        schema::migrate(&mut connection)?;
        let counters = Counters::read(&connection, DrawnTokens::recorded(&[], 0))?;
        Ok(Replica { connection, counters, _lock: lock })
    }

    /// Applies a group in one commit. An error if a command does not apply as it was recorded: the
    /// groups before it were others.
    pub fn apply(&mut self, group: &Group) -> Result<()> {
        let Replica { connection, counters, .. } = self;
        counters.tokens = DrawnTokens::recorded(&group.tokens, group.latest_token);
        counters.begin(group.now);
        let mut open = OpenGroup::begin(connection, counters)?;
        for command in &group.commands {
            if open.apply(counters, command)??.is_refusal() {
                return Err(differs());
            }
        }
        if counters.tokens.drawn() != group.tokens {
            return Err(differs());
        }
        open.commit(counters)
    }
}

fn differs() -> StoreError {
    StoreError::Unreadable("a recorded command does not apply to these tables".to_owned())
}
