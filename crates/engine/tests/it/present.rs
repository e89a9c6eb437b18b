//! What tests in real time share: a clock, chance, and patience.

use std::sync::Arc;
use std::time::Duration;

use domain::schedule::Zones;
use engine::Parts;
use jiff::Timestamp;
use uuid::Uuid;

/// Shows the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[expect(clippy::disallowed_methods, reason = "these tests run in real time")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

#[expect(clippy::disallowed_methods, reason = "nodes of a real store have real ids")]
pub fn random() -> u128 {
    let id = Uuid::now_v7().as_u128();
    id ^ id.swap_bytes()
}

/// What an engine is made of, with the time of a clock.
pub fn parts(clock: &Clock) -> Parts {
    Parts {
        clock: Arc::clone(clock),
        steady: Arc::clone(clock),
        random: Arc::new(random),
        zones: Zones::bundled(),
        tracer: None,
        start_log: None,
    }
}

/// The same with the real time.
pub fn real_parts() -> Parts {
    let clock: Clock = Arc::new(now);
    parts(&clock)
}

/// Looks until something is there. Only a broken engine takes longer.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), looking).await;
    found.unwrap_or_else(|_| panic!("not {what}"))
}
