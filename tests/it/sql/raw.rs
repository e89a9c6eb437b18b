//! The bytes of the protocol, for tests of clients that violate it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that sends arbitrary bytes.
pub struct Raw {
    pub stream: TcpStream,
    incoming: BytesMut,
    /// By what its statements are cancelled.
    pub key: (i32, i32),
}

impl Raw {
    /// Connects, and says nothing.
    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Raw { stream, incoming: BytesMut::new(), key: (0, 0) }
    }

    /// Connects and logs in; answers the SQLSTATE of a refusal.
    pub fn login(address: &str, user: &str, secret: &str, tenant: &str) -> Result<Self, String> {
        let mut raw = Raw::connect(address);
        raw.send(|out| {
            frontend::startup_message([("user", user), ("database", tenant)], out).unwrap();
        });
        let mut scram = ScramSha256::new(secret.as_bytes(), ChannelBinding::unsupported());
        loop {
            match raw.message().expect("an answer") {
                Message::AuthenticationSasl(_) => {
                    let first = scram.message().to_vec();
                    raw.send(|out| {
                        frontend::sasl_initial_response(SCRAM_SHA_256, &first, out).unwrap();
                    });
                }
                Message::AuthenticationSaslContinue(body) => {
                    scram.update(body.data()).unwrap();
                    let last = scram.message().to_vec();
                    raw.send(|out| frontend::sasl_response(&last, out).unwrap());
                }
                Message::AuthenticationSaslFinal(body) => scram.finish(body.data()).unwrap(),
                Message::BackendKeyData(body) => raw.key = (body.process_id(), body.secret_key()),
                Message::ErrorResponse(body) => return Err(state(body.fields())),
                Message::ReadyForQuery(_) => return Ok(raw),
                _ => {}
            }
        }
    }

    pub fn send(&mut self, put: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        put(&mut out);
        self.send_bytes(&out);
    }

    /// Sends bytes. A server that has hung up meanwhile is no surprise here.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next message; none when the server has hung up.
    pub fn message(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = Message::parse(&mut self.incoming).unwrap() {
                return Some(message);
            }
            let mut bytes = [0; 8192];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.incoming.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// The next event: the SQLSTATE of an error, `ready`, the tag of a statement, or `end`.
    pub fn next(&mut self) -> String {
        loop {
            return match self.message() {
                None => "end".to_owned(),
                Some(Message::ErrorResponse(body)) => state(body.fields()),
                Some(Message::ReadyForQuery(_)) => "ready".to_owned(),
                Some(Message::CommandComplete(body)) => body.tag().unwrap().to_owned(),
                _ => continue,
            };
        }
    }

    /// Everything up to the next readiness or the end.
    pub fn all(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let next = self.next();
            let is_last = matches!(next.as_str(), "ready" | "end");
            seen.push(next);
            if is_last {
                return seen;
            }
        }
    }

    /// Asks a text.
    pub fn query(&mut self, text: &str) -> Vec<String> {
        self.send(|out| frontend::query(text, out).unwrap());
        self.all()
    }
}

fn state(mut fields: postgres_protocol::message::backend::ErrorFields<'_>) -> String {
    while let Some(field) = fields.next().unwrap() {
        if field.type_() == b'C' {
            return String::from_utf8_lossy(field.value_bytes()).into_owned();
        }
    }
    "no state".to_owned()
}
