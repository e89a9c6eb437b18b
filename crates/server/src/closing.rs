//! Answers without an end have one when the key of their reader does.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use futures_util::stream::{StreamExt, unfold};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::actor::{Actor, Credential};
use crate::app::App;

/// Interval of the check whether the reader may still read. Cached identities of the engine are at
/// most a second old.
const LOOK: Duration = Duration::from_secs(2);

/// The same answer, which ends when the key is not valid any more, or gives its owner other rights.
/// An answer whose length is known has been made already.
pub(crate) fn when_revoked(
    response: Response,
    app: App,
    credential: Credential,
    actor: Actor,
) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let state = (body.into_data_stream(), look, Reader { app, credential, actor });
    let body = unfold(state, |(mut data, mut look, reader)| async move {
        loop {
            tokio::select! {
                // In this order, so that a stream that never pauses is looked at too.
                biased;
                _ = tick(&mut look) => if !reader.may_go_on().await { return None },
                part = data.next() => return part.map(|part| (part, (data, look, reader))),
            }
        }
    });
    Response::from_parts(parts, Body::from_stream(body))
}

async fn tick(look: &mut Interval) {
    look.tick().await;
}

struct Reader {
    app: App,
    credential: Credential,
    actor: Actor,
}

impl Reader {
    async fn may_go_on(&self) -> bool {
        match self.credential.owner(&self.app).await {
            Ok(Some(now)) => {
                now.privileges == self.actor.privileges && now.read_only == self.actor.read_only
            }
            Ok(None) | Err(_) => false,
        }
    }
}
