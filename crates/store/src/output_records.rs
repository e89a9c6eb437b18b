//! Records of outputs that were moved to object storage.

use std::future::Future;

use domain::id::RunId;

use crate::records::{Records, Sql, Statement, params};
use crate::{Result, Store, run_queries};

/// A store that keeps where the outputs of attempts are.
pub trait OutputRecords: Store {
    /// Records that the output of an attempt of an ended run is not in files any more, but where
    /// this says. A short output that was kept, or another place, stays. Answers whether the record
    /// is the given one now.
    fn archive_output(
        &self,
        run: RunId,
        number: u32,
        record: &[u8],
    ) -> impl Future<Output = Result<bool>> + Send;
}

impl<S: Records> OutputRecords for S {
    async fn archive_output(&self, run: RunId, number: u32, record: &[u8]) -> Result<bool> {
        // The attempt of a node that was killed has no record so far. Without its run it gets none.
        let sql = Sql::Differs {
            postgres: "INSERT INTO outputs (run_id, number, frames)
                       SELECT $1, $2, $3
                       WHERE EXISTS (SELECT 1 FROM history AS h WHERE h.id BETWEEN $1 AND $1)
                       ON CONFLICT (run_id, number) DO UPDATE SET frames = excluded.frames
                       WHERE outputs.frames = $4",
            sqlite: "INSERT INTO outputs (run_id, number, frames)
                     SELECT $1, $2, $3
                     WHERE EXISTS (
                         SELECT 1 FROM runs AS r CROSS JOIN ends AS e ON e.seq = r.seq
                         WHERE r.id = $1
                     )
                     ON CONFLICT (run_id, number) DO UPDATE SET frames = excluded.frames
                     WHERE outputs.frames = $4",
        };
        let files: &[u8] = &[];
        self.execute(Statement::new(sql, params![run.0, number, record, files])).await?;
        let kept = run_queries::attempt_output(self, run, number).await?;
        Ok(kept.as_deref() == Some(record))
    }
}
