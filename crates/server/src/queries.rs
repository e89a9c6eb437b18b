//! The threads on which questions are answered, and how many questions there may be.
//!
//! A statement that is answered has a thread of its own, of a lower priority than everything else,
//! and computes by turns with the others (`query::Pool`). While it waits for a turn or for its
//! reader the thread sleeps. Scheduling shares no thread with it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::access::{Actor, Privilege};
use domain::id::TenantId;
use query::{Account, Limits, Pool, PoolLimits};
use tokio::runtime::{Builder, Runtime};

use crate::problem::{Code, Problem, Result};

/// How much lower the priority of these threads is, from 0 to 19.
const NICENESS: i32 = 15;

/// Threads for administrators, who are let in when others are not.
const RESERVED_THREADS: usize = 64;

/// Resource limits of queries: for each statement, for a tenant, and for all together.
#[derive(Clone, Copy, Debug)]
pub struct QueryLimits {
    /// Limits of all statements together.
    pub pool: PoolLimits,
    /// The steps of a statement.
    pub statement_steps: u64,
    /// The memory of a statement, in bytes.
    pub statement_memory: u64,
    /// Statements at the same time, those that wait included.
    pub statements: usize,
    /// Those of a tenant.
    pub tenant_statements: usize,
    /// How long a reader may leave the rows unread that it asked for.
    pub read_timeout: Duration,
}

impl Default for QueryLimits {
    fn default() -> Self {
        let Limits { steps, memory, .. } = Limits::default();
        QueryLimits {
            pool: PoolLimits::default(),
            statement_steps: steps,
            statement_memory: memory,
            statements: 256,
            tenant_statements: 64,
            read_timeout: Duration::from_secs(60),
        }
    }
}

/// Where questions are answered.
pub struct Queries {
    pub(crate) limits: QueryLimits,
    pool: Arc<Pool>,
    /// Taken when it is dropped.
    threads: Option<Runtime>,
    admitted: Arc<Mutex<HashMap<TenantId, usize>>>,
}

/// A statement that was let in, until this is dropped.
pub(crate) struct Admitted {
    all: Arc<Mutex<HashMap<TenantId, usize>>>,
    tenant: TenantId,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.tenant);
            }
        }
    }
}

/// Gives the calling thread a lower priority. A system that does not allow it does without.
pub fn lower_priority(niceness: i32) {
    if let Err(error) = rustix::process::setpriority_process(None, niceness) {
        tracing::debug!(%error, "the priority of a thread cannot be lowered");
    }
}

pub(crate) fn is_administrator(actor: &Actor) -> bool {
    actor.privileges.has(Privilege::AdministerCluster)
}

impl Queries {
    /// Threads for questions with these limits.
    pub fn new(limits: QueryLimits) -> io::Result<Self> {
        let threads = Builder::new_current_thread()
            .thread_name("query")
            .max_blocking_threads(limits.statements.saturating_add(RESERVED_THREADS))
            .on_thread_start(|| lower_priority(NICENESS))
            .build()?;
        let pool = Pool::new(limits.pool);
        Ok(Queries { limits, pool, threads: Some(threads), admitted: Arc::default() })
    }

    /// The account that the statements of an actor are charged to.
    pub(crate) fn account(&self, actor: &Actor) -> Account {
        Account::new(Arc::clone(&self.pool), actor.tenant.0, is_administrator(actor))
    }

    /// The limits of a statement, where it may take this long.
    pub(crate) fn statement(&self, time: Duration) -> Limits {
        let QueryLimits { statement_steps: steps, statement_memory: memory, .. } = self.limits;
        Limits { time, steps, memory, ..Limits::default() }
    }

    /// Lets a statement of an actor in, if there are not too many. Administrators of the cluster
    /// are always let in.
    pub(crate) fn admit(&self, actor: &Actor) -> Result<Admitted> {
        let mut all = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.get(&actor.tenant).copied().unwrap_or(0);
        let refused = |text: String| Err(Problem::new(Code::RateLimited, text));
        let QueryLimits { statements, tenant_statements, .. } = self.limits;
        if !is_administrator(actor) {
            if own >= tenant_statements {
                let setting = format!("sql.tenant_statements_max = {tenant_statements}");
                return refused(format!("tenant statement limit reached ({setting})"));
            }
            if all.values().sum::<usize>() >= statements {
                let setting = format!("sql.statements_max = {statements}");
                return refused(format!("statement limit reached ({setting})"));
            }
        }
        *all.entry(actor.tenant).or_default() += 1;
        Ok(Admitted { all: Arc::clone(&self.admitted), tenant: actor.tenant })
    }

    /// Does something on a thread for questions.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<tokio::task::JoinHandle<T>> {
        self.threads.as_ref().map(|threads| threads.spawn_blocking(work))
    }
}

impl Drop for Queries {
    fn drop(&mut self) {
        // It may be dropped where nothing may block.
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn statements_are_limited_by_tenant_and_all_together() {
        let limits = QueryLimits { statements: 3, tenant_statements: 2, ..QueryLimits::default() };
        let queries = Queries::new(limits).unwrap();
        let admin = Actor::admin();
        let user = |tenant: u128| Actor {
            tenant: TenantId(Uuid::from_u128(tenant)),
            privileges: domain::access::Privileges::default(),
            ..Actor::admin()
        };
        let refused = |actor: &Actor| queries.admit(actor).err().map(|problem| problem.message);
        let one = queries.admit(&user(1)).unwrap();
        let _two = queries.admit(&user(1)).unwrap();
        let text = refused(&user(1)).unwrap();
        assert_eq!(text, "tenant statement limit reached (sql.tenant_statements_max = 2)");
        let _three = queries.admit(&user(2)).unwrap();
        let text = refused(&user(2)).unwrap();
        assert_eq!(text, "statement limit reached (sql.statements_max = 3)");
        let _four = queries.admit(&admin).unwrap();
        drop(one);
        assert!(refused(&user(2)).is_some(), "the administrator's counts too");
        drop(_four);
        assert!(refused(&user(2)).is_none());
    }
}
