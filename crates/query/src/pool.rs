//! Resources that all statements share: turns to compute, and memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use uuid::Uuid;

use crate::error::{QueryError, State};
use crate::turns::{Claimant, Turns};

/// The limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// The number of statements that compute at the same time. Administrators have one more.
    pub running: usize,
    /// The memory of all statements, in bytes.
    pub memory: u64,
    /// The memory of the statements of a tenant, in bytes.
    pub tenant_memory: u64,
}

impl Default for PoolLimits {
    fn default() -> Self {
        PoolLimits { running: 2, memory: 256 << 20, tenant_memory: 128 << 20 }
    }
}

/// The shared resources of the statements of a process.
pub struct Pool {
    limits: PoolLimits,
    pub(crate) turns: Turns,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    all: Holding,
    tenants: HashMap<Uuid, Holding>,
}

/// The memory of a group of statements.
#[derive(Default)]
struct Holding {
    bytes: i64,
    statements: u32,
}

impl Holding {
    /// Whether the group exceeds its limit and this statement exceeds its share of it. So a small
    /// statement does not fail because of others.
    fn ends(&self, held: i64, max: u64) -> bool {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        self.bytes > max && held > max / i64::from(self.statements.max(1))
    }
}

impl Pool {
    /// A pool with these limits.
    pub fn new(limits: PoolLimits) -> Arc<Self> {
        let turns = Turns::new(limits.running);
        Arc::new(Pool { limits, turns, memory: Mutex::default() })
    }
}

/// The pool and the tenant of a statement.
#[derive(Clone)]
pub struct Account {
    pub(crate) pool: Arc<Pool>,
    tenant: Uuid,
    is_administrator: bool,
}

impl Account {
    /// The account of a user of a tenant.
    pub fn new(pool: Arc<Pool>, tenant: Uuid, is_administrator: bool) -> Self {
        Account { pool, tenant, is_administrator }
    }

    pub(crate) fn claimant(&self) -> Claimant {
        match self.is_administrator {
            true => Claimant::Administrator,
            false => Claimant::Tenant(self.tenant),
        }
    }

    /// Registers a statement.
    pub(crate) fn begin(&self) {
        self.change(|holding| holding.statements += 1);
    }

    /// Removes a statement that held this many bytes.
    pub(crate) fn end(&self, held: i64) {
        self.change(|holding| {
            holding.bytes -= held;
            holding.statements = holding.statements.saturating_sub(1);
        });
        let mut memory = self.pool.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.tenants.retain(|_, holding| holding.statements > 0);
    }

    fn change(&self, change: impl Fn(&mut Holding)) {
        let mut memory = self.pool.memory.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut memory.all);
        change(memory.tenants.entry(self.tenant).or_default());
    }

    /// Adds memory of a statement that holds `held` bytes.
    pub(crate) fn hold(&self, held: i64, more: i64) -> Result<(), QueryError> {
        self.change(|holding| holding.bytes += more);
        let memory = self.pool.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let PoolLimits { memory: all, tenant_memory, .. } = self.pool.limits;
        let tenant = memory.tenants.get(&self.tenant);
        let (what, setting, max) = if tenant.is_some_and(|it| it.ends(held, tenant_memory)) {
            ("tenant", "sql.tenant_memory_max", tenant_memory)
        } else if memory.all.ends(held, all) {
            ("server", "sql.memory_max", all)
        } else {
            return Ok(());
        };
        let text = format!("{what} memory limit reached ({setting} = {max} bytes)");
        let hint = "Select less at a time, or try again later.".to_owned();
        Err(QueryError::new(State::OutOfMemory, text).hint(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_with_more_than_its_share_ends() {
        let pool = Pool::new(PoolLimits { running: 4, memory: 100, tenant_memory: 60 });
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let [one, two] = [a, b].map(|tenant| Account::new(Arc::clone(&pool), tenant, false));
        (0..2).for_each(|_| one.begin());
        two.begin();
        assert!(one.hold(50, 50).is_ok());
        // 70 in total, but this one holds less than half of 60.
        assert!(one.hold(20, 20).is_ok());
        let text = one.hold(55, 5).unwrap_err().text;
        assert!(text.contains("sql.tenant_memory_max = 60"), "{text}");
        one.end(55);
        assert!(one.hold(20, 0).is_ok());
        assert!(two.hold(59, 59).is_ok());
        assert!(one.hold(45, 25).is_ok(), "104 of 100, and 45 is less than half");
        let text = two.hold(60, 1).unwrap_err().text;
        assert!(text.contains("sql.memory_max = 100"), "{text}");
        two.end(60);
        one.end(45);
        let memory = pool.memory.lock().unwrap();
        assert_eq!((memory.all.bytes, memory.tenants.len()), (0, 0));
    }
}
