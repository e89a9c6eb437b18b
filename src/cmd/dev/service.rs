//! The HTTP service that the sample jobs call: one slow endpoint, one that fails.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::any;
use tokio::net::TcpListener;

/// How long the slow address takes.
const SLOW: Duration = Duration::from_secs(5);

/// Answers on a free port of this machine until the process ends.
pub async fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let slow = async || {
        tokio::time::sleep(SLOW).await;
        "that took a while\n"
    };
    let broken = async || (StatusCode::INTERNAL_SERVER_ERROR, "this address is broken\n");
    let router = Router::new().route("/slow", any(slow)).route("/broken", any(broken));
    tokio::spawn(axum::serve(listener, router).into_future());
    Ok(address)
}
