//! Blackouts that this process knows: read when a node joins, with each renewal of its lease, and
//! after each change that is made here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::blackout::{Blackout, CompiledBlackout};
use domain::id::TenantId;
use domain::object::ObjectKind;

use super::Node;

/// Number of blackouts that are read at a time.
const PAGE: u32 = 500;

/// The blackouts by tenant, those of the cluster included; under [`TenantId::CLUSTER`] those of the
/// cluster alone.
#[derive(Default)]
pub(super) struct Blackouts(Mutex<HashMap<TenantId, Arc<[CompiledBlackout]>>>);

impl Node {
    /// The blackouts that the jobs of a tenant are under.
    pub fn blackouts(&self, tenant: TenantId) -> Arc<[CompiledBlackout]> {
        let known = self.blackouts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&tenant).or_else(|| known.get(&TenantId::CLUSTER));
        found.map_or_else(|| Arc::from([]), Arc::clone)
    }

    /// Reads the blackouts of all tenants.
    pub async fn read_blackouts(&self) -> store::Result<()> {
        let mut read: HashMap<TenantId, Vec<CompiledBlackout>> = HashMap::new();
        let mut after = None;
        loop {
            let page = self.store.objects_of_kind(ObjectKind::Blackout, after, PAGE).await?;
            after = page.last().map(|object| object.id);
            let is_last = page.len() < PAGE as usize;
            for object in page {
                let compiled = Blackout::from_body(&object.body).and_then(|blackout| {
                    let compiled = blackout.compile(&object.name, &self.parts.zones);
                    compiled.map_err(|error| error.to_string())
                });
                match compiled {
                    Ok(compiled) => read.entry(object.tenant).or_default().push(compiled),
                    // A zone can vanish from the machine's database.
                    Err(error) => {
                        tracing::error!(blackout = %object.name, %error, "blackout not readable");
                    }
                }
            }
            if is_last {
                break;
            }
        }
        let of_cluster = read.remove(&TenantId::CLUSTER).unwrap_or_default();
        let of_tenants = read.into_iter().map(|(tenant, own)| {
            let all: Vec<CompiledBlackout> = own.into_iter().chain(of_cluster.clone()).collect();
            (tenant, Arc::from(all))
        });
        let mut known: HashMap<_, _> = of_tenants.collect();
        known.insert(TenantId::CLUSTER, Arc::from(of_cluster));
        *self.blackouts.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }
}
