//! Cancelling: who knows the secret of a session can end its statement, from another connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pgwire::messages::startup::SecretKey;
use subtle::ConstantTimeEq;
use tokio::sync::Notify;

/// The secret of a session, of four bytes or of 32.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Bytes);

impl Secret {
    /// The secret in the bytes that a client sent.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Secret(Bytes::copy_from_slice(bytes))
    }
}

/// By the process id of the session: its secret, and the handle that cancels its statement.
type Sessions = HashMap<i32, (Secret, Arc<Notify>)>;

/// The sessions whose statements can be cancelled.
#[derive(Clone, Default)]
pub(crate) struct Cancels(Arc<Mutex<Sessions>>);

impl Cancels {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session. Its number is as hard to guess as its secret.
    pub(crate) fn register(&self, drawn: u128, is_long: bool) -> Registered {
        let bytes = drawn.to_be_bytes();
        let length = if is_long { 12 } else { 4 };
        let secret = Secret::of(&bytes[4..4 + length]);
        let wish = Arc::new(Notify::new());
        let mut sessions = self.sessions();
        let mut id = i32::from_be_bytes([bytes[0] & 0x7f, bytes[1], bytes[2], bytes[3]]).max(1);
        while sessions.contains_key(&id) {
            id = id.wrapping_add(1).max(1);
        }
        sessions.insert(id, (secret.clone(), Arc::clone(&wish)));
        Registered { id, secret, wish, all: self.clone() }
    }

    /// Ends the statement of a session, if the secret is its own. The client does not learn whether
    /// it was.
    pub(crate) fn cancel(&self, id: i32, secret: &Secret) {
        let sessions = self.sessions();
        if let Some((kept, wish)) = sessions.get(&id)
            && bool::from(kept.0.ct_eq(&secret.0))
        {
            wish.notify_waiters();
        }
    }
}

/// A session whose statements can be cancelled, as long as this is there.
pub(crate) struct Registered {
    id: i32,
    secret: Secret,
    wish: Arc<Notify>,
    all: Cancels,
}

impl Registered {
    /// The content of `BackendKeyData`.
    pub(crate) fn key(&self) -> (i32, SecretKey) {
        (self.id, SecretKey::Bytes(self.secret.0.clone()))
    }

    /// The number of the session.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Resolves when the present statement is cancelled. Earlier cancellations do not count.
    pub(crate) fn wish(&self) -> impl Future<Output = ()> + Send + use<> {
        let wish = Arc::clone(&self.wish);
        async move { wish.notified().await }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.all.sessions().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_secret_of_a_session_ends_its_statement() {
        let cancels = Cancels::default();
        let one = cancels.register(u128::MAX / 3, false);
        let two = cancels.register(u128::MAX / 3, true);
        assert_ne!(one.id(), two.id());
        let mut wish = std::pin::pin!(one.wish());
        let is_wished = async |wish: &mut std::pin::Pin<&mut _>| {
            tokio::select! {
                biased;
                () = wish => true,
                () = std::future::ready(()) => false,
            }
        };
        assert!(!is_wished(&mut wish).await);
        for wrong in [&[][..], &[0; 4], &[0xff; 32], &two.secret.0] {
            cancels.cancel(one.id(), &Secret::of(wrong));
        }
        cancels.cancel(two.id(), &one.secret);
        assert!(!is_wished(&mut wish).await);
        cancels.cancel(one.id(), &one.secret);
        assert!(is_wished(&mut wish).await);
        // A session that has ended cannot be cancelled any more.
        let (id, secret) = (two.id(), two.secret.clone());
        drop(two);
        cancels.cancel(id, &secret);
        assert_eq!(cancels.sessions().len(), 1);
    }
}
