//! The bytes of a conversation: messages in, messages out, and never more of either in memory than
//! is allowed.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::BytesMut;
use pgwire::messages::PgWireBackendMessage;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::frame::{self, Frame, Lost};

/// How much is read at a time.
const READ_BYTES: usize = 8 << 10;

/// The write buffer is flushed when it has more bytes than this.
const WRITE_BYTES: usize = 64 << 10;

/// How long a client may leave sent bytes unread.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);

/// How long a client may take to notice the end of the connection.
const FAREWELL: Duration = Duration::from_secs(1);

/// The stream of a connection: TCP, with or without TLS.
pub(crate) trait Line: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Line for T {}

/// Why a connection has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The client has disconnected, or does not read.
    Gone(io::Error),
    /// The client violates the protocol.
    Lost(Lost),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ended::Gone(error) => error.fmt(f),
            Ended::Lost(lost) => write!(f, "{lost:?}"),
        }
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Ended::Gone(error)
    }
}

impl From<Lost> for Ended {
    fn from(lost: Lost) -> Self {
        Ended::Lost(lost)
    }
}

/// A client.
pub(crate) struct Wire {
    line: Pin<Box<dyn Line>>,
    incoming: BytesMut,
    outgoing: BytesMut,
    /// The longest message that it may send.
    pub(crate) bytes_max: usize,
}

impl Wire {
    /// A client that may send messages of so many bytes.
    pub(crate) fn new(line: impl Line + 'static, bytes_max: usize) -> Self {
        let (incoming, outgoing) = (BytesMut::new(), BytesMut::new());
        Wire { line: Box::pin(line), incoming, outgoing, bytes_max }
    }

    /// Whether nothing came in that was not read.
    pub(crate) fn has_read_all(&self) -> bool {
        self.incoming.is_empty()
    }

    /// The tables below it, for a reader that sees all.
    pub(crate) fn into_line(self) -> Pin<Box<dyn Line>> {
        self.line
    }

    /// The next message; none if the client has disconnected between two messages. The future is
    /// cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, Ended> {
        loop {
            if let Some(frame) = frame::cut(&mut self.incoming, self.bytes_max)? {
                return Ok(Some(frame));
            }
            if !self.read().await? {
                return Ok(None);
            }
        }
    }

    /// The first packet of a conversation.
    pub(crate) async fn first(&mut self) -> Result<Option<BytesMut>, Ended> {
        loop {
            if let Some(packet) = frame::cut_first(&mut self.incoming, self.bytes_max)? {
                return Ok(Some(packet));
            }
            if !self.read().await? {
                return Ok(None);
            }
        }
    }

    /// The code of the first packet, without consuming it; none at the end of the stream.
    pub(crate) async fn peek_code(&mut self) -> Result<Option<i32>, Ended> {
        loop {
            if let Some(bytes) = self.incoming.get(4..8) {
                return Ok(bytes.try_into().ok().map(i32::from_be_bytes));
            }
            if !self.read().await? {
                return Ok(None);
            }
        }
    }

    /// Reads something; false at the end of all.
    async fn read(&mut self) -> Result<bool, Ended> {
        self.incoming.reserve(READ_BYTES);
        if self.line.read_buf(&mut self.incoming).await? > 0 {
            return Ok(true);
        }
        match self.incoming.is_empty() {
            true => Ok(false),
            false => Err(Ended::Gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Puts a message to those that will be sent.
    pub(crate) fn put(&mut self, message: &PgWireBackendMessage) -> Result<(), Ended> {
        message.encode(&mut self.outgoing).map_err(|error| Ended::Gone(io::Error::other(error)))
    }

    /// Puts a message to the others, and sends them if they have become many.
    pub(crate) async fn send(&mut self, message: PgWireBackendMessage) -> Result<(), Ended> {
        self.put(&message)?;
        if self.outgoing.len() >= WRITE_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Sends a byte that is no message.
    pub(crate) async fn send_byte(&mut self, byte: u8) -> Result<(), Ended> {
        self.outgoing.extend_from_slice(&[byte]);
        self.flush().await
    }

    /// Sends everything.
    pub(crate) async fn flush(&mut self) -> Result<(), Ended> {
        let outgoing = self.outgoing.split().freeze();
        let write = async {
            self.line.write_all(&outgoing).await?;
            self.line.flush().await
        };
        match timeout(WRITE_PATIENCE, write).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(Ended::Gone(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Flushes and closes. Bytes that the client still sends are read and discarded for a moment:
    /// closing a socket with unread bytes resets the connection and loses the last message.
    pub(crate) async fn close(mut self) {
        if self.flush().await.is_err() {
            return;
        }
        let farewell = async {
            self.line.shutdown().await?;
            let mut unread = [0; READ_BYTES];
            while self.line.read(&mut unread).await? > 0 {}
            Ok::<(), io::Error>(())
        };
        let _ = timeout(FAREWELL, farewell).await;
    }
}
