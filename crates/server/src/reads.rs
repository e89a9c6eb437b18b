//! Requests that can take long: those that read, and those about many things at once. So many are
//! answered at the same time, all together and of a tenant; others wait a little, in the order in
//! which they came. Administrators of the cluster do not wait.
//!
//! They are answered by threads of their own, with a lower priority than those of the listeners, so
//! that a trigger does not wait until long lists are written.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderValue, Method, header};
use domain::access::Actor;
use domain::id::TenantId;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::Instrument;

use crate::problem::{Code, Problem, Result};
use crate::queries::{is_administrator, lower_priority};

/// How much lower the priority of the threads is than that of scheduling.
const NICENESS: i32 = 10;

/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tenants with a queue of their own that are remembered before idle ones are forgotten.
const TENANTS_MAX: usize = 1024;

/// How many requests may read at the same time.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// All together.
    pub all: usize,
    /// Those of a tenant.
    pub per_tenant: usize,
    /// Threads that answer them; 0 for those of the listener.
    pub threads: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        ReadLimits { all: 32, per_tenant: 8, threads: 0 }
    }
}

/// Whether a request can take long: one that reads, or one about a collection (`/v1/jobs:bulk`).
pub(crate) fn is_long(method: &Method, route: Option<&str>) -> bool {
    method.is_safe() || route.is_some_and(|route| route.contains(':'))
}

/// The requests that read.
pub(crate) struct Reads {
    limits: ReadLimits,
    patience: Duration,
    all: Arc<Semaphore>,
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
    /// Taken when it is dropped.
    threads: Option<Runtime>,
}

/// Work on another thread, which is given up with the request that waits for it.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A request that may read, until this is dropped.
pub(crate) struct Reading(#[expect(dead_code, reason = "held")] Option<[OwnedSemaphorePermit; 2]>);

fn places(number: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(number.clamp(1, Semaphore::MAX_PERMITS)))
}

impl Reads {
    pub(crate) fn new(limits: ReadLimits) -> Self {
        let threads = match limits.threads {
            0 => None,
            count => runtime(count).inspect_err(|error| {
                tracing::warn!(%error, "no threads for requests that read: listeners answer them");
            }).ok(),
        };
        let (all, tenants) = (places(limits.all), Mutex::default());
        Reads { limits, patience: PATIENCE, all, tenants, threads }
    }

    /// Answers a request on a thread for it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let Some(threads) = &self.threads else { return work.await };
        let mut task = Task(threads.spawn(work.in_current_span()));
        let failed = |_| Problem::new(Code::Internal, "the request was not answered");
        (&mut task.0).await.map_err(failed)?
    }

    fn of_tenant(&self, tenant: TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= TENANTS_MAX {
            tenants.retain(|_, places| Arc::strong_count(places) > 1);
        }
        Arc::clone(tenants.entry(tenant).or_insert_with(|| places(self.limits.per_tenant)))
    }

    /// Waits until a request of an actor may read.
    pub(crate) async fn enter(&self, actor: &Actor) -> Result<Reading> {
        if is_administrator(actor) {
            return Ok(Reading(None));
        }
        // A request that waits for others of its tenant keeps no place from other tenants.
        let own = self.of_tenant(actor.tenant);
        let entered = timeout(self.patience, async {
            Some([
                own.acquire_owned().await.ok()?,
                Arc::clone(&self.all).acquire_owned().await.ok()?,
            ])
        });
        match entered.await {
            Ok(places) => Ok(Reading(places)),
            Err(_) => {
                let ReadLimits { all, per_tenant, .. } = self.limits;
                let text = format!(
                    "too many requests read at the same time \
                     (api.tenant_reads_max = {per_tenant}, api.reads_max = {all})"
                );
                Err(Problem::new(Code::RateLimited, text)
                    .with_header(header::RETRY_AFTER, HeaderValue::from(1)))
            }
        }
    }
}

fn runtime(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("reader")
        .on_thread_start(|| lower_priority(NICENESS))
        .enable_all()
        .build()
}

impl Drop for Reads {
    fn drop(&mut self) {
        // It may be dropped where nothing may block.
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::access::Privileges;
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn a_tenant_that_reads_much_waits_for_itself() {
        let limits = ReadLimits { all: 3, per_tenant: 2, threads: 0 };
        let mut reads = Reads::new(limits);
        reads.patience = Duration::from_millis(20);
        let user = |tenant: u128| Actor {
            tenant: TenantId(Uuid::from_u128(tenant)),
            privileges: Privileges::default(),
            ..Actor::admin()
        };
        let first = [reads.enter(&user(1)).await.unwrap(), reads.enter(&user(1)).await.unwrap()];
        let (same, another) = (user(1), user(2));
        let (waiting, other) = tokio::join!(reads.enter(&same), reads.enter(&another));
        assert_eq!(waiting.err().map(|problem| problem.code), Some(Code::RateLimited));
        let _other = other.unwrap();
        assert!(reads.enter(&user(3)).await.is_err(), "all places are taken");
        assert!(reads.enter(&Actor::admin()).await.is_ok());
        drop(first);
        assert!(reads.enter(&user(3)).await.is_ok());
    }

    #[tokio::test]
    async fn work_has_threads_of_its_own_and_ends_with_its_request() {
        let reads = Reads::new(ReadLimits { threads: 1, ..ReadLimits::default() });
        let name = async { Ok(std::thread::current().name().map(str::to_owned)) };
        assert_eq!(reads.run(name).await.unwrap().as_deref(), Some("reader"));
        let (held, mut released) = tokio::sync::mpsc::channel::<()>(1);
        let endless = reads.run(async move {
            let _held = held;
            std::future::pending::<()>().await;
            Ok(())
        });
        assert!(timeout(Duration::from_millis(10), endless).await.is_err());
        assert_eq!(released.recv().await, None, "the other end was dropped");
        for (method, route, expected) in [
            (Method::GET, Some("/v1/jobs"), true),
            (Method::POST, Some("/v1/jobs:bulk"), true),
            (Method::POST, Some("/v1/jobs/{job_id}/trigger"), false),
            (Method::POST, None, false),
        ] {
            assert_eq!(is_long(&method, route), expected, "{method} {route:?}");
        }
    }
}
