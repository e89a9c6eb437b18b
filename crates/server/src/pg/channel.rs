//! LISTEN: state changes as notifications, with the names of channels that clients of PostgreSQL
//! know. The notifications are the events of `GET /v1/events`.

use std::collections::BTreeSet;

use domain::access::Actor;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::NotificationResponse;

use crate::app::App;
use crate::news::{Event, Listener};

/// The channels, and the kind of events of each.
const CHANNELS: [(&str, &str); 2] = [("punctual_runs", "execution"), ("punctual_jobs", "job")];

/// Channels of a session.
const CHANNELS_MAX: usize = 64;

/// Channels that a session listens to.
pub(crate) struct Channels {
    app: App,
    names: BTreeSet<String>,
    listener: Option<Listener>,
}

impl Channels {
    /// Nothing yet.
    pub(crate) fn new(app: App) -> Self {
        Channels { app, names: BTreeSet::new(), listener: None }
    }

    /// Listens to a channel from now on; answers what its author should know.
    pub(crate) fn add(&mut self, name: &str, actor: &Actor) -> Option<String> {
        let is_known = CHANNELS.iter().any(|(known, _)| *known == name);
        if is_known && self.listener.is_none() {
            let now = self.app.now();
            self.listener = Some(Listener::new(self.app.clone(), actor.clone(), now));
        }
        if self.names.len() < CHANNELS_MAX {
            self.names.insert(name.to_owned());
        }
        let names = CHANNELS.map(|(name, _)| name).join(" and ");
        (!is_known).then(|| format!("nothing is ever told on {name:?}; there are {names}"))
    }

    /// Listens to a channel no longer, or to none.
    pub(crate) fn remove(&mut self, name: Option<&str>) {
        match name {
            Some(name) => drop(self.names.remove(name)),
            None => self.names.clear(),
        }
        let hears = |(name, _): &(&str, &str)| self.names.contains(*name);
        if !CHANNELS.iter().any(hears) {
            self.listener = None;
        }
    }

    /// The rights of the session have changed.
    pub(crate) fn set_actor(&mut self, actor: &Actor) {
        if let Some(listener) = &mut self.listener {
            listener.actor.clone_from(actor);
        }
    }

    /// The next notification of the session; pending for ever if it does not listen.
    pub(crate) async fn next(&mut self, session: i32) -> PgWireBackendMessage {
        loop {
            let Some(listener) = &mut self.listener else { return std::future::pending().await };
            let Event { kind, data, .. } = listener.next().await;
            let channel = CHANNELS.iter().find(|(_, told)| *told == kind);
            if let Some((name, _)) = channel.filter(|(name, _)| self.names.contains(*name)) {
                let (name, payload) = ((*name).to_owned(), data.to_string());
                let told = NotificationResponse::new(session, name, payload);
                return PgWireBackendMessage::NotificationResponse(told);
            }
        }
    }
}
