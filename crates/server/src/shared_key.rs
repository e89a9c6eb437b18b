//! The bootstrap administrator's key of each node, known to every node of the cluster.
//!
//! A node makes `admin.key` for itself, and recognises it without the store. The hash in the store
//! lets the other nodes recognise it too, so that it works behind a load balancer.

use domain::access::{Actor, ApiKey, Entry, Kind};
use domain::id::{TenantId, UserId};
use engine::{EngineError, SYSTEM};

use crate::actor::Keys;
use crate::problem::Result;
use crate::scram;

/// How many keys are read at a time.
const PAGE: u32 = 500;

impl Keys {
    /// Makes the administrator's key of this node known to the others, in the place of the one that
    /// had this label before.
    pub async fn share_admin_key(&self, label: &str) -> Result<()> {
        let actor = Actor { name: SYSTEM.to_owned(), ..Actor::admin() };
        let engine = self.engine.as_ref();
        let (mut is_known, mut after) = (false, None::<String>);
        loop {
            let of = Some(UserId::ADMIN);
            let page =
                engine.by(&actor).list_entries(Kind::Key, of, after.as_deref(), PAGE).await?;
            for record in page.items {
                let Entry::Key(key) = &record.entry else { continue };
                if key.id == self.admin.id() {
                    is_known = true;
                } else if key.label == label && !key.session {
                    match engine.by(&actor).remove_entry(&record.entry, None).await {
                        Ok(()) | Err(EngineError::NotFound(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        if is_known {
            return Ok(());
        }
        let secret = self.admin.reveal().to_owned();
        let scram = Some(scram::verifier_of(engine, UserId::ADMIN, secret).await?);
        let key = ApiKey {
            id: self.admin.id(),
            tenant: TenantId::DEFAULT,
            user: UserId::ADMIN,
            label: label.to_owned(),
            hash: self.admin.hash().into(),
            scram,
            scopes: None,
            read_only: false,
            expires_at: None,
            session: false,
        };
        match engine.by(&actor).put_entry(Entry::Key(key), None).await {
            // Two nodes may have the same key, from the setting `admin_key`.
            Ok(_) | Err(EngineError::EntryTaken(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
