//! Dead letters: runs that failed for good and wait for an administrator.
//!
//! The two databases keep ended runs in different tables, so the statements differ.

use std::future::Future;

use domain::id::{RunId, TenantId};

use crate::records::{Records, Sql, Statement, Transaction, params};
use crate::{Result, Store};

/// A store that lists dead letters.
pub trait DeadLetters: Store {
    /// Acknowledges dead letters: they leave the list. Returns for each whether it was there.
    fn acknowledge(&self, runs: &[RunId]) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// How many dead letters a tenant has, but no more than `most`: a client that gets this number
    /// shows "more than".
    fn count_dead_letters(
        &self,
        tenant: TenantId,
        most: u32,
    ) -> impl Future<Output = Result<u32>> + Send;
}

impl<S: Records> DeadLetters for S {
    async fn acknowledge(&self, runs: &[RunId]) -> Result<Vec<bool>> {
        let acknowledge = |run: &RunId| {
            let sql = Sql::Differs {
                postgres: "UPDATE history SET dead_letter = false WHERE id = $1 AND dead_letter",
                sqlite: "UPDATE ends SET dead_letter = 0
                         WHERE seq = (SELECT seq FROM runs WHERE id = $1) AND dead_letter = 1",
            };
            Statement::new(sql, params![run.0])
        };
        let statements: Vec<_> = runs.iter().map(acknowledge).collect();
        let answers = self.commit(Transaction::from(statements)).await?.unwrap_or_default();
        Ok(answers.iter().map(|answer| answer.affected > 0).collect())
    }

    async fn count_dead_letters(&self, tenant: TenantId, most: u32) -> Result<u32> {
        let sql = Sql::Differs {
            postgres: "SELECT count(*) FROM (
                           SELECT 1 FROM history WHERE tenant_id = $1 AND dead_letter LIMIT $2
                       ) AS d",
            sqlite: "SELECT count(*) FROM (
                         SELECT 1 FROM ends INDEXED BY ends_dead
                         WHERE tenant_id = $1 AND dead_letter = 1 LIMIT $2
                     )",
        };
        let rows = self.query(Statement::new(sql, params![tenant.0, most])).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }
}
