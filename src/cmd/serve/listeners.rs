//! The addresses that a server listens on.

use std::net::SocketAddr;
use std::sync::Arc;

use server::ListenerLimits;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use crate::cli_error::CliError;
use crate::exit::Failure;
use crate::tls::{Certificate, TlsListener};

/// Answers callers of an address until the server closes.
pub(super) fn serve_http(
    front: &Handle,
    listener: TcpListener,
    router: axum::Router,
    limits: ListenerLimits,
    certificate: Option<&Arc<Certificate>>,
    mut closed: tokio::sync::watch::Receiver<()>,
) -> Result<tokio::task::JoinHandle<()>, Failure> {
    let closed = async move { while closed.changed().await.is_ok() {} };
    Ok(match certificate {
        None => front.spawn(server::serve(listener, router, limits, closed)),
        Some(certificate) => {
            let per_address = limits.unauthenticated_per_address;
            let listener = TlsListener::new(front, listener, Arc::clone(certificate), per_address)?;
            front.spawn(server::serve(listener, router, limits, closed))
        }
    })
}

/// Binds the port of the SQL interface. When the port was not chosen and another process has it,
/// the server continues without: a second server on a machine should start without more flags.
pub(super) async fn listen_for_sql(
    front: &Handle,
    address: SocketAddr,
    is_chosen: bool,
) -> Result<Option<TcpListener>, Failure> {
    match bind(front, address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && !is_chosen => {
            tracing::warn!(
                %address,
                "SQL interface disabled: another process has the port; choose another with --pg"
            );
            Ok(None)
        }
        Err(error) => {
            let text = format!("cannot listen on {address}: {error}");
            let hint = "choose another address with --pg 127.0.0.1:PORT, or --pg none";
            Err(Failure::Failed(CliError::new(text).hint(hint)))
        }
    }
}

/// Takes an address, for the threads of the listeners.
pub(super) async fn bind(front: &Handle, address: SocketAddr) -> std::io::Result<TcpListener> {
    front.spawn(TcpListener::bind(address)).await.map_err(std::io::Error::other)?
}

pub(super) fn cannot_listen(http: SocketAddr, error: std::io::Error) -> Failure {
    let text = format!("cannot listen on {http}: {error}");
    let error = match error.kind() {
        std::io::ErrorKind::AddrInUse => CliError::new(text).hint(
            "another server has this port; choose one with --http 127.0.0.1:PORT (0 takes a free one)",
        ),
        _ => CliError::new(text),
    };
    Failure::Failed(error)
}
