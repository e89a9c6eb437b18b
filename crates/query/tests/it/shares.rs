//! Statements of several tenants in one pool.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use query::{
    Account, Cancel, Engine, Limits, Pool, PoolLimits, QueryError, Row, Sink, Source, State,
};
use uuid::Uuid;

use crate::world::{Asked, Fixed, ask};

const ENDLESS: &str =
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t";

fn engine(pool: &Arc<Pool>, tenant: u128, is_administrator: bool) -> Engine {
    assert!(query::count_memory());
    let source: Arc<dyn Source> = Arc::new(Fixed { asked: Asked::default(), times: 1 });
    let account = Account::new(Arc::clone(pool), Uuid::from_u128(tenant), is_administrator);
    let limits = Limits { time: Duration::from_secs(600), ..Limits::default() };
    Engine::in_pool(source, limits, account).unwrap()
}

#[test]
fn a_flood_of_one_tenant_does_not_keep_others_waiting() {
    let pool = Pool::new(PoolLimits { running: 1, ..PoolLimits::default() });
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let (begun, wait) = channel();
        let flood: Vec<_> = (0..20)
            .map(|_| {
                let (engine, begun, cancel) = (engine(&pool, 1, false), begun.clone(), &cancel);
                scope.spawn(move || {
                    let prepared = engine.prepare(ENDLESS).unwrap();
                    begun.send(()).unwrap();
                    engine.run(&prepared, &[], cancel).unwrap_err().state
                })
            })
            .collect();
        (0..20).for_each(|_| wait.recv().unwrap());
        // Each of these ends although the flood never does.
        for (tenant, is_administrator) in [(2, false), (3, false), (2, false), (1, true)] {
            let other = engine(&pool, tenant, is_administrator);
            assert_eq!(ask(&other, "SELECT 1", &[]).unwrap().rows.len(), 1);
        }
        // Another statement of the same tenant ends as well.
        assert_eq!(ask(&engine(&pool, 1, false), "SELECT 1", &[]).unwrap().rows.len(), 1);
        cancel.cancel();
        for thread in flood {
            assert_eq!(thread.join().unwrap(), State::Cancelled);
        }
    });
}

/// A sink that accepts a row when the test allows it.
struct Slow {
    waits: Sender<()>,
    space: Receiver<()>,
    rows: usize,
}

impl Sink for Slow {
    fn try_put(&mut self, row: Row) -> Result<Option<Row>, QueryError> {
        Ok(Some(row))
    }

    fn put(&mut self, _: Row) -> Result<(), QueryError> {
        let _ = self.waits.send(());
        let _ = self.space.recv();
        self.rows += 1;
        Ok(())
    }
}

#[test]
fn a_statement_that_waits_for_its_reader_has_no_turn() {
    let pool = Pool::new(PoolLimits { running: 1, ..PoolLimits::default() });
    std::thread::scope(|scope| {
        let (waits, waiting) = channel();
        let (give, space) = channel();
        let slow = engine(&pool, 1, false);
        let thread = scope.spawn(move || {
            let prepared = slow.prepare("SELECT * FROM sys.jobs").unwrap();
            let mut sink = Slow { waits, space, rows: 0 };
            slow.each(&prepared, &[], &Cancel::default(), &mut sink).unwrap();
            sink.rows
        });
        for _ in 0..3 {
            waiting.recv().unwrap();
            let same_tenant = engine(&pool, 1, false);
            assert_eq!(ask(&same_tenant, "SELECT 1", &[]).unwrap().rows.len(), 1);
            give.send(()).unwrap();
        }
        assert_eq!(thread.join().unwrap(), 3);
    });
}

#[test]
fn all_statements_together_hold_no_more_than_they_may() {
    let limits = PoolLimits { running: 1, memory: 8 << 20, tenant_memory: 4 << 20 };
    let pool = Pool::new(limits);
    let greedy = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t LIMIT 1000000) \
                  SELECT count(*) FROM (SELECT DISTINCT n || repeat('x', 100) FROM t)";
    let one = engine(&pool, 1, false);
    let error = ask(&one, greedy, &[]).unwrap_err();
    assert_eq!(error.state.code(), "53200");
    assert!(error.text.contains("sql.tenant_memory_max = 4194304"), "{error}");
    assert_eq!(ask(&one, "SELECT 1", &[]).unwrap().rows.len(), 1);
}
