//! Deletes old history: whole partitions at once, the rest in small batches.

use domain::id::RunId;

use uuid::Uuid;

use super::Shared;
use super::pipeline::values;
use super::row::us;
use crate::{Result, RetentionCutoff, SampleCutoff};

impl Shared {
    pub(super) async fn prune(&self, cut: &RetentionCutoff, limit: u32) -> Result<u64> {
        let (before, failed_before) = (us(cut.before), us(cut.failed_before));
        let limit = i64::from(limit);
        let newest = RunId::last_of(cut.before.max(cut.failed_before));
        let Some(job) = cut.job else {
            let (dropped, firsts, untils) = self.keep_partitions(cut).await?;
            let values = values![newest.0, before, failed_before, limit, firsts, untils];
            let rows = self.query_one(sql!("prune_age"), values).await?.try_get(0)?;
            return Ok(dropped + gone(rows));
        };
        let values = values![job.0, before, failed_before, limit, newest.0];
        let old: i64 = self.query_one(sql!("prune_age_of_job"), values).await?.try_get(0)?;
        let surplus: i64 = match cut.keep_last {
            Some(keep) => {
                let values = values![
                    job.0,
                    i64::from(keep),
                    limit - old,
                    None::<Vec<u8>>,
                    0_i64,
                    Uuid::nil()
                ];
                self.query_one(sql!("prune_count_of_job"), values).await?.try_get(0)?
            }
            None => 0,
        };
        let sampled: i64 = match cut.sample {
            Some(SampleCutoff { kept_below, before, since }) => {
                // The newest one stays.
                let since = RunId::last_of(since).0;
                let (room, below) = (limit - old - surplus, Some(kept_below.to_vec()));
                let values = values![job.0, 1_i64, room, below, us(before), since];
                self.query_one(sql!("prune_count_of_job"), values).await?.try_get(0)?
            }
            None => 0,
        };
        let surplus = surplus + sampled;
        if old + surplus == 0 {
            self.query(sql!("job_rule_over"), values![job.0]).await?;
        }
        Ok(gone(old + surplus))
    }
}

fn gone(count: i64) -> u64 {
    count.cast_unsigned()
}
