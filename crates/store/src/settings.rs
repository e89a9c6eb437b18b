//! Settings that all nodes share.

use std::future::Future;

use domain::audit::{Event, Kind};
use domain::id::TenantId;
use jiff::Timestamp;

use crate::audit_log::audit_row;
use crate::records::{Records, Row, Statement, Transaction, params};
use crate::{Result, Store};

/// A store that keeps the settings of a cluster.
pub trait Settings: Store {
    /// All settings by name.
    fn settings(&self) -> impl Future<Output = Result<Vec<Setting>>> + Send;

    /// Changes a setting, or removes it when there is no value, if it still has the version that
    /// the change is based on; 0 for one that is not there.
    fn set(
        &self,
        name: &str,
        value: Option<&str>,
        expected: u32,
        by: &str,
    ) -> impl Future<Output = Result<Set>> + Send;
}

/// A setting that all nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value, as JSON.
    pub value: String,
    /// Grows with every change, from 1.
    pub version: u32,
    /// When it was last changed.
    pub changed_at: Timestamp,
}

/// The result of a change of a setting, a secret or a named resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// It has this version now; 0 when it is gone.
    Done(u32),
    /// It has this version; 0 when it is not there.
    Conflict(u32),
}

impl<S: Records> Settings for S {
    async fn settings(&self) -> Result<Vec<Setting>> {
        let sql = "SELECT name, value, version, changed_at FROM settings ORDER BY name";
        let setting = |row: &Row| {
            Ok(Setting {
                name: row.get(0)?,
                value: row.get(1)?,
                version: row.get(2)?,
                changed_at: row.get(3)?,
            })
        };
        self.query(Statement::new(sql, params![])).await?.iter().map(setting).collect()
    }

    async fn set(&self, name: &str, value: Option<&str>, expected: u32, by: &str) -> Result<Set> {
        let (statement, version) = match (value, expected) {
            (Some(value), 0) => {
                let sql = "INSERT INTO settings (name, value, version, changed_at)
                           VALUES ($1, $2, 1, {now})
                           ON CONFLICT DO NOTHING RETURNING version";
                (Statement::new(sql, params![name, value]), 1)
            }
            (Some(value), _) => {
                let sql = "UPDATE settings
                           SET value = $2, version = version + 1, changed_at = {now}
                           WHERE name = $1 AND version = $3 RETURNING version";
                (Statement::new(sql, params![name, value, expected]), expected + 1)
            }
            (None, 0) => {
                let found = version(self, name).await?;
                return Ok(if found == 0 { Set::Done(0) } else { Set::Conflict(found) });
            }
            (None, _) => {
                let sql = "DELETE FROM settings WHERE name = $1 AND version = $2 RETURNING version";
                (Statement::new(sql, params![name, expected]), 0)
            }
        };
        let event = Event {
            tenant: TenantId::CLUSTER,
            actor: by.to_owned(),
            kind: Kind::SettingChanged,
            job: None,
            run: None,
            outcome: "DONE".to_owned(),
            details: serde_json::json!({ "name": name, "value": value }).to_string(),
        };
        let transaction = Transaction::from(vec![statement.expect_row(), audit_row(&event)]);
        if self.commit(transaction).await?.is_some() {
            return Ok(Set::Done(version));
        }
        Ok(Set::Conflict(self::version(self, name).await?))
    }
}

/// The version of a setting; 0 when it is not there.
async fn version(store: &impl Records, name: &str) -> Result<u32> {
    let sql = "SELECT version FROM settings WHERE name = $1";
    let rows = store.query(Statement::new(sql, params![name])).await?;
    rows.first().map_or(Ok(0), |row| row.get(0))
}
