//! A client connection to the SQL interface of a server: simple queries and their responses.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{ErrorFields, Message};
use postgres_protocol::message::frontend;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::cli_error::CliError;
use crate::exit::{Exit, Failure};

/// The longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Where a server answers SQL.
#[derive(Clone, Debug)]
pub struct SqlAddress {
    /// The name or number of the machine.
    pub host: String,
    pub port: u16,
    /// Whether it is asked over TLS.
    pub tls: bool,
}

impl std::fmt::Display for SqlAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The credentials of a connection.
pub struct Credentials<'a> {
    pub user: &'a str,
    /// An API key or a password.
    pub secret: &'a str,
    pub tenant: &'a str,
}

/// A column of an answer.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    pub name: String,
    /// The number of its type.
    pub oid: u32,
}

/// A message of the server.
pub enum ServerMessage {
    /// Rows with these columns follow.
    Columns(Vec<ResultColumn>),
    Row(Vec<Option<String>>),
    /// Lines that are written out as they are.
    Lines(Bytes),
    /// A statement was done.
    Done(String),
    /// Something to know.
    Notice(String),
    /// A statement failed.
    Failed(SqlFailure),
    /// All was answered.
    Ready,
}

/// Why a statement failed.
#[derive(Clone, Debug, Default)]
pub struct SqlFailure {
    /// Its kind, for programs.
    pub sqlstate: String,
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// The letter of the text at which it is, from 1.
    pub position: Option<usize>,
}

trait ByteStream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> ByteStream for T {}

/// A server that answers.
pub struct SqlConnection {
    line: Box<dyn ByteStream>,
    incoming: BytesMut,
}

impl SqlConnection {
    /// Connects and authenticates.
    pub async fn open(
        address: &SqlAddress,
        credentials: &Credentials<'_>,
    ) -> Result<Self, Failure> {
        let connect = tokio::time::timeout(CONNECT_MAX, connect(address)).await;
        let connect = connect.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let line = connect.map_err(|error| unreachable(address, &error))?;
        let mut connection = SqlConnection { line, incoming: BytesMut::new() };
        connection.begin(credentials).await.map_err(|failure| match failure {
            Failure::Io(error) => unreachable(address, &error),
            other => other,
        })?;
        Ok(connection)
    }

    async fn begin(&mut self, credentials: &Credentials<'_>) -> Result<(), Failure> {
        let parameters = [
            ("user", credentials.user),
            ("database", credentials.tenant),
            ("application_name", "punctual sql"),
        ];
        self.send(|out| frontend::startup_message(parameters, out)).await?;
        let mut scram =
            ScramSha256::new(credentials.secret.as_bytes(), ChannelBinding::unsupported());
        loop {
            match self.message().await? {
                Message::AuthenticationSasl(_) => {
                    let first = scram.message().to_vec();
                    self.send(|out| frontend::sasl_initial_response(SCRAM_SHA_256, &first, out))
                        .await?;
                }
                Message::AuthenticationSaslContinue(body) => {
                    scram.update(body.data())?;
                    let last = scram.message().to_vec();
                    self.send(|out| frontend::sasl_response(&last, out)).await?;
                }
                Message::AuthenticationSaslFinal(body) => scram.finish(body.data())?,
                Message::ErrorResponse(body) => {
                    return Err(trouble(body.fields())?.failure(None));
                }
                Message::ReadyForQuery(_) => return Ok(()),
                Message::AuthenticationCleartextPassword
                | Message::AuthenticationMd5Password(_) => {
                    let text = "the server asks for the key in the clear, and does not get it";
                    return Err(Failure::failed(text));
                }
                _ => {}
            }
        }
    }

    /// Asks a text of any number of statements.
    pub async fn ask(&mut self, text: &str) -> Result<(), Failure> {
        self.send(|out| frontend::query(text, out)).await
    }

    /// Reads the next message of the server.
    pub async fn next(&mut self) -> Result<ServerMessage, Failure> {
        loop {
            return Ok(match self.message().await? {
                Message::RowDescription(body) => {
                    let column = |field: postgres_protocol::message::backend::Field<'_>| {
                        Ok(ResultColumn { name: field.name().to_owned(), oid: field.type_oid() })
                    };
                    ServerMessage::Columns(body.fields().map(column).collect()?)
                }
                Message::DataRow(body) => {
                    let buffer = body.buffer();
                    let value = |range: Option<std::ops::Range<usize>>| {
                        let bytes = range.map(|range| &buffer[range]);
                        Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
                    };
                    ServerMessage::Row(body.ranges().map(value).collect()?)
                }
                Message::CopyData(body) => ServerMessage::Lines(body.into_bytes()),
                Message::CommandComplete(body) => ServerMessage::Done(body.tag()?.to_owned()),
                Message::NoticeResponse(body) => {
                    ServerMessage::Notice(trouble(body.fields())?.message)
                }
                Message::ErrorResponse(body) => ServerMessage::Failed(trouble(body.fields())?),
                Message::ReadyForQuery(_) => ServerMessage::Ready,
                _ => continue,
            });
        }
    }

    async fn send(
        &mut self,
        put: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let mut out = BytesMut::new();
        put(&mut out)?;
        self.line.write_all(&out).await?;
        Ok(self.line.flush().await?)
    }

    async fn message(&mut self) -> Result<Message, Failure> {
        loop {
            if let Some(message) = Message::parse(&mut self.incoming)? {
                return Ok(message);
            }
            if self.line.read_buf(&mut self.incoming).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}

async fn connect(address: &SqlAddress) -> io::Result<Box<dyn ByteStream>> {
    let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    if !address.tls {
        return Ok(Box::new(stream));
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await?;
    if stream.read_u8().await? != b'S' {
        return Err(io::Error::other("it does not speak TLS"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(io::Error::other)?
        .with_no_client_auth();
    let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    Ok(Box::new(stream))
}

fn unreachable(address: &SqlAddress, error: &io::Error) -> Failure {
    let text = format!("cannot reach the SQL interface at {address}: {error}");
    let hint = "is it open (punctual serve --pg ADDR)? name another with --pg";
    Failure::Ended(Exit::Unreachable, CliError::new(text).hint(hint))
}

fn trouble(mut fields: ErrorFields<'_>) -> io::Result<SqlFailure> {
    let mut trouble = SqlFailure::default();
    while let Some(field) = fields.next()? {
        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => trouble.sqlstate = value,
            b'M' => trouble.message = value,
            b'D' => trouble.detail = Some(value),
            b'H' => trouble.hint = Some(value),
            b'P' => trouble.position = value.parse().ok(),
            _ => {}
        }
    }
    Ok(trouble)
}

impl SqlFailure {
    /// How a command ends because of it. `text` is what was asked.
    pub fn failure(&self, text: Option<&str>) -> Failure {
        let mut message = self.message.clone();
        if let Some(detail) = &self.detail {
            message.push_str("; ");
            message.push_str(&detail.replace('\n', "; "));
        }
        let mut error = CliError::new(message);
        if let Some((text, position)) = text.zip(self.position) {
            error = error.pointing(text, position);
        }
        if let Some(hint) = &self.hint {
            error = error.hint(hint.clone());
        }
        Failure::Ended(exit_of(&self.sqlstate), error)
    }
}

/// The end that a kind of trouble means.
fn exit_of(sqlstate: &str) -> Exit {
    let known = server::Code::ALL.iter().find(|known| known.sqlstate() == sqlstate);
    if let Some(exit) = known.and_then(|known| Exit::of(known.exit_code())) {
        return exit;
    }
    match sqlstate.get(..2).unwrap_or_default() {
        "28" => Exit::Auth,
        "08" => Exit::Unreachable,
        "22" | "26" | "34" | "42" => Exit::Usage,
        "25" | "40" | "55" => Exit::Conflict,
        _ => match sqlstate {
            "57P01" | "57P02" | "57P03" => Exit::Unreachable,
            _ => Exit::Failed,
        },
    }
}

/// The address of a text such as `127.0.0.1:8632`, or of a name and a port.
pub fn address_of(text: &str, tls: bool) -> Option<SqlAddress> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        let (host, port) = (address.ip().to_string(), address.port());
        return Some(SqlAddress { host, port, tls });
    }
    let (host, port) = text.rsplit_once(':')?;
    let is_name = !host.is_empty() && !host.contains([':', '/', '@', ' ']);
    Some(SqlAddress { host: host.to_owned(), port: port.parse().ok()?, tls }).filter(|_| is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        let read = |text: &str| address_of(text, false).map(|address| address.to_string());
        assert_eq!(read("127.0.0.1:8632").as_deref(), Some("127.0.0.1:8632"));
        assert_eq!(read("[::1]:8632").as_deref(), Some("[::1]:8632"));
        assert_eq!(read("jobs.example.com:99").as_deref(), Some("jobs.example.com:99"));
        for wrong in ["", "8632", ":8632", "host", "host:", "host:x", "a:b:1", "http://a:1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_state_means_an_end() {
        for (state, exit) in [
            ("42601", Exit::Usage),
            ("42704", Exit::NotFound),
            ("42710", Exit::Conflict),
            ("42501", Exit::Auth),
            ("28P01", Exit::Auth),
            ("57P01", Exit::Unreachable),
            ("57014", Exit::Failed),
            ("25P02", Exit::Conflict),
            ("", Exit::Failed),
        ] {
            assert_eq!(exit_of(state), exit, "{state}");
        }
    }
}
