//! State changes as server-sent events: runs that end and jobs that change.

use std::convert::Infallible;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, StreamExt, unfold};
use jiff::Timestamp;

use crate::actor::Actor;
use crate::app::App;
use crate::news::{Event, LATE, Listener};
use crate::problem::{Code, ErrorBody, Problem, Result};

/// Tells what happens from now on, or since the event of `Last-Event-ID`: `execution` when a run has
/// ended, `job` when a job was made, changed or removed. After a new connection an event may come
/// twice; none is left out.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "list_events", tag = "server",
    params(("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen.")),
    responses((status = 200, body = String, content_type = "text/event-stream"), (status = 400, body = ErrorBody))
)]
pub(crate) async fn events(
    State(app): State<App>,
    actor: Actor,
    headers: HeaderMap,
) -> Result<Response> {
    let since = match headers.get("last-event-id") {
        None => app.now(),
        Some(id) => {
            let seen = id.to_str().ok().and_then(|id| id.parse::<Timestamp>().ok());
            let text = "must be the id of an event";
            let wrong = || Problem::field(Code::InvalidRequest, "Last-Event-ID", text);
            seen.ok_or_else(wrong)?.saturating_sub(LATE).map_err(|_| wrong())?
        }
    };
    let listener = Listener::new(app, (*actor).clone(), since);
    Ok(Sse::new(stream(listener)).keep_alive(KeepAlive::default()).into_response())
}

fn stream(listener: Listener) -> impl Stream<Item = std::result::Result<sse::Event, Infallible>> {
    unfold(listener, |mut listener| async move {
        let Event { at, kind, data } = listener.next().await;
        let event = sse::Event::default().event(kind).id(at.to_string()).data(data.to_string());
        Some((Ok(event), listener))
    })
    .boxed()
}
