//! A session: what a client sends, one message after the other, and what it is answered.

use std::sync::Arc;
use std::time::Duration;

use domain::access::Actor;
use pgwire::messages::response::{ReadyForQuery, TransactionStatus};
use pgwire::messages::startup::{BackendKeyData, ParameterStatus};
use pgwire::messages::{PgWireBackendMessage as Out, PgWireFrontendMessage as In};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::cancel::Registered;
use super::channel::Channels;
use super::frame::Frame;
use super::listener::SqlListener;
use super::portal::{Named, Rows};
use super::report::{self, Report};
use super::startup::Arrived;
use super::wire::{Ended, Wire};
use crate::admission::SqlLogin;
use crate::sql::{BlockState, Session};

/// Interval of the check whether the login is still permitted. Cached identities of the engine are
/// at most a second old.
pub(super) const LOOK: Duration = Duration::from_secs(2);

/// How long a client waits for a refusal because it has asked for too much.
const REFUSAL: Duration = Duration::from_millis(200);

/// Why a session is over.
pub(super) enum Over {
    /// The client has disconnected, or violates the protocol.
    Ended(Ended),
    /// The server ends the session with this error.
    Fatal(Report),
    /// The client sent `Terminate`.
    Left,
}

impl From<Ended> for Over {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Lost(lost) => Over::Fatal(lost.into()),
            gone => Over::Ended(gone),
        }
    }
}

/// A statement that a client prepared.
pub(super) struct Prepared {
    /// The text that it sent.
    pub(super) text: String,
    /// The parsed statement; none for an empty text.
    pub(super) statement: Option<sql::Parsed>,
    /// The types of its values, as far as the client said.
    pub(super) types: Vec<postgres_types::Type>,
}

/// A prepared statement with its values.
pub(super) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) values: Vec<query::Value>,
    pub(super) formats: Vec<i16>,
    /// The answer, while some of its rows are not sent.
    pub(super) rows: Option<Rows>,
    /// Whether all rows were sent.
    pub(super) is_done: bool,
}

/// A client that is in.
pub(super) struct Talk<'a> {
    pub(super) listener: &'a SqlListener,
    pub(super) wire: Wire,
    pub(super) login: SqlLogin,
    pub(super) registered: Registered,
    pub(super) sql: Session,
    pub(super) statements: Named<Arc<Prepared>>,
    pub(super) portals: Named<Portal>,
    pub(super) channels: Channels,
    /// The settings as the client knows them.
    reported: Vec<(&'static str, String)>,
    /// When to look whether the client may still be here.
    pub(super) look: Interval,
    /// After an error, until the client has noticed it.
    skips: bool,
}

/// Talks to a client until one of both has enough.
pub(crate) async fn run(
    listener: &SqlListener,
    arrived: Arrived,
    mut closed: watch::Receiver<()>,
) -> Result<(), Ended> {
    let Arrived { wire, login, registered, tenant, parameters } = arrived;
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let actor = match actor_of(listener, &login).await {
        Ok(actor) => actor,
        Err(report) => return super::startup::refuse::<()>(wire, report).await.map(|_| ()),
    };
    let _place = match listener.session_slots.take(&actor) {
        Ok(place) => place,
        Err(report) => return super::startup::refuse::<()>(wire, report).await.map(|_| ()),
    };
    let _open = listener.app.metrics.sql_session();
    let mut talk = Talk {
        sql: Session::new(listener.app.clone(), actor.into()).at(
            &tenant,
            registered.id(),
            listener.terms.statement_timeout,
        ),
        channels: Channels::new(listener.app.clone()),
        statements: Named::statements(),
        portals: Named::portals(),
        listener,
        wire,
        login,
        registered,
        look,
        reported: Vec::new(),
        skips: false,
    };
    talk.adopt(&parameters);
    let over = match talk.welcome().await {
        Ok(()) => talk.listen(&mut closed).await,
        Err(ended) => ended.into(),
    };
    match over {
        Over::Left => Ok(()),
        Over::Ended(ended) => Err(ended),
        Over::Fatal(report) => {
            talk.wire.put(&report.fatal())?;
            talk.wire.close().await;
            Ok(())
        }
    }
}

/// The present actor of a login, or the error that ends the session.
pub(super) async fn actor_of(listener: &SqlListener, login: &SqlLogin) -> Result<Actor, Report> {
    match listener.app.authority.actor_of(login).await {
        Ok(Some(actor)) => Ok(actor),
        Ok(None) => Err(Report::new(report::SHUTDOWN, "the key or the user of this session ended")),
        Err(problem) => Err(problem.into()),
    }
}

impl Talk<'_> {
    async fn listen(&mut self, closed: &mut watch::Receiver<()>) -> Over {
        loop {
            let is_idle = self.status() == TransactionStatus::Idle && !self.skips;
            let step = tokio::select! {
                // In this order, so that a client that never pauses is checked, too.
                biased;
                _ = closed.changed() => {
                    let text = "the server stops";
                    return Over::Fatal(Report::new(report::SHUTDOWN, text));
                }
                _ = self.look.tick() => self.look_again().await,
                frame = self.wire.next() => match frame {
                    Ok(Some(frame)) => self.hear(frame).await,
                    Ok(None) => return Over::Left,
                    Err(ended) => Err(ended.into()),
                },
                news = self.channels.next(self.registered.id()), if is_idle => {
                    self.tell(news).await
                }
            };
            if let Err(over) = step {
                return over;
            }
        }
    }

    /// Sends the parameters and keys that clients expect before the first statement.
    async fn welcome(&mut self) -> Result<(), Ended> {
        let name = self.sql.actor().name.clone();
        for (setting, value) in [("is_superuser", "off"), ("session_authorization", &name)] {
            let status = ParameterStatus::new(setting.to_owned(), value.to_owned());
            self.wire.put(&Out::ParameterStatus(status))?;
        }
        self.report_settings().await?;
        let (id, secret) = self.registered.key();
        self.wire.put(&Out::BackendKeyData(BackendKeyData::new(id, secret)))?;
        self.ready().await
    }

    /// Sends the client the reported settings that have changed.
    pub(super) async fn report_settings(&mut self) -> Result<(), Ended> {
        let now = self.sql.reported();
        for told in now.iter().filter(|setting| !self.reported.contains(setting)) {
            let status = ParameterStatus::new(told.0.to_owned(), told.1.clone());
            self.wire.send(Out::ParameterStatus(status)).await?;
        }
        self.reported = now;
        Ok(())
    }

    /// Checks whether the login is still permitted, and with which privileges.
    pub(super) async fn look_again(&mut self) -> Result<(), Over> {
        let actor = actor_of(self.listener, &self.login).await.map_err(Over::Fatal)?;
        self.channels.set_actor(&actor);
        self.sql.set_actor(actor.into());
        Ok(())
    }

    async fn tell(&mut self, news: Out) -> Result<(), Over> {
        self.wire.send(news).await?;
        Ok(self.wire.flush().await?)
    }

    async fn hear(&mut self, frame: Frame) -> Result<(), Over> {
        let message = match frame {
            Frame::Message(message) => message,
            Frame::Unreadable(..) if self.skips => return Ok(()),
            Frame::Unreadable(b'Q', flaw) => {
                self.wire.send(Report::from(flaw).error()).await?;
                return Ok(self.ready().await?);
            }
            Frame::Unreadable(_, flaw) => return self.fail(flaw.into()).await,
        };
        match message {
            In::Terminate(_) => return Err(Over::Left),
            In::Sync(_) => {
                self.skips = false;
                // Outside of a block, the end of a batch ends what it has opened.
                if self.status() == TransactionStatus::Idle {
                    self.portals.clear();
                }
                return Ok(self.ready().await?);
            }
            _ if self.skips => return Ok(()),
            In::Query(query) => return self.simple(query.query).await,
            In::Flush(_) => return Ok(self.wire.flush().await?),
            // Data of a COPY that has failed is discarded.
            In::CopyData(_) | In::CopyDone(_) | In::CopyFail(_) => return Ok(()),
            _ => {}
        }
        let done = match message {
            In::Parse(parse) => self.parse(parse).await,
            In::Bind(bind) => self.bind(bind).await,
            In::Describe(describe) => self.describe(describe).await,
            In::Execute(execute) => self.execute(execute).await,
            In::Close(close) => self.close(close).await,
            _ => {
                let text = "this message has no place here";
                return Err(Over::Fatal(Report::new(report::PROTOCOL, text)));
            }
        };
        match done {
            Ok(()) => Ok(()),
            Err(Step::Over(over)) => Err(over),
            Err(Step::Failed(report)) => self.fail(report).await,
        }
    }

    /// Sends an error of the extended protocol; messages before the next Sync are skipped.
    async fn fail(&mut self, report: Report) -> Result<(), Over> {
        self.skips = true;
        self.sql.fail();
        self.refuse(report).await?;
        // Some clients ask for the end of the batch only when they have seen it.
        Ok(self.wire.flush().await?)
    }

    /// Sends an error. One about a resource limit is delayed: clients that retry at once would keep
    /// the server busy with refusals.
    pub(super) async fn refuse(&mut self, report: Report) -> Result<(), Ended> {
        if report.sqlstate.starts_with(report::CLASS_TOO_MUCH_AT_ONCE) {
            sleep(REFUSAL).await;
        }
        self.wire.send(report.error()).await
    }

    pub(super) fn status(&self) -> TransactionStatus {
        match self.sql.block() {
            BlockState::Idle => TransactionStatus::Idle,
            BlockState::Open => TransactionStatus::Transaction,
            BlockState::Failed => TransactionStatus::Error,
        }
    }

    /// Sends `ReadyForQuery`.
    pub(super) async fn ready(&mut self) -> Result<(), Ended> {
        let status = ReadyForQuery::new(self.status());
        self.wire.send(Out::ReadyForQuery(status)).await?;
        self.wire.flush().await
    }
}

/// Why a step was not done.
pub(super) enum Step {
    /// The client gets the error, and the session continues.
    Failed(Report),
    /// It does not.
    Over(Over),
}

impl From<Report> for Step {
    fn from(report: Report) -> Self {
        Step::Failed(report)
    }
}

impl From<Over> for Step {
    fn from(over: Over) -> Self {
        Step::Over(over)
    }
}

impl From<Ended> for Step {
    fn from(ended: Ended) -> Self {
        Step::Over(ended.into())
    }
}
