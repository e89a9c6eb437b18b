//! The heads of the audit log's hash chains in the server's log: a log that is shipped elsewhere
//! keeps them where a writer of the database does not reach.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::audit::KeptHead;
use domain::id::TenantId;
use engine::Engine;
use tokio::time::sleep;

/// Logs the heads that have changed, over and over.
pub async fn log_heads(engine: Arc<Engine>, every: Duration) {
    let mut logged: HashMap<TenantId, KeptHead> = HashMap::new();
    loop {
        sleep(every).await;
        // An outage of the store is in the log already.
        for (tenant, head) in engine.node().audit_heads().await.unwrap_or_default() {
            if logged.insert(tenant, head) != Some(head) {
                tracing::info!(%tenant, %head, "audit head");
            }
        }
    }
}
