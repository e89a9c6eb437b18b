//! Watches a client while it is answered: whether it may still be here, and wants the answer.

use std::pin::Pin;

use query::Row;
use tokio::time::Interval;

use super::listener::SqlListener;
use super::report::{self, Report};
use super::session::{LOOK, Over, Step, actor_of};
use crate::admission::SqlLogin;
use crate::sql::RowStream;

/// Watches a client during one statement.
pub(super) struct Watch<'a> {
    listener: &'a SqlListener,
    login: SqlLogin,
    look: Interval,
    /// The same for the whole statement: a wish that comes while rows are sent is not lost.
    wish: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<'a> Watch<'a> {
    /// Watches a client whose wish to cancel is this.
    pub(super) fn new(
        listener: &'a SqlListener,
        login: SqlLogin,
        wish: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Watch { listener, login, look: tokio::time::interval(LOOK), wish: Box::pin(wish) }
    }

    /// Answers when the statement must end, and why.
    pub(super) async fn ended(&mut self) -> Step {
        loop {
            tokio::select! {
                () = &mut self.wish => {
                    let text = "canceling statement due to user request";
                    return Report::new(report::CANCELLED, text).into();
                }
                _ = self.look.tick() => {
                    if let Err(report) = actor_of(self.listener, &self.login).await {
                        return Over::Fatal(report).into();
                    }
                }
            }
        }
    }

    /// The next rows of an answer; none at its end.
    pub(super) async fn next(
        &mut self,
        rows: &mut RowStream,
        text: &str,
    ) -> Result<Option<Vec<Row>>, Step> {
        tokio::select! {
            // A cancel request is noticed even if rows are always ready.
            biased;
            step = self.ended() => Err(step),
            rows = rows.next() => rows.map_err(|error| Report::of(error, text).into()),
        }
    }
}
