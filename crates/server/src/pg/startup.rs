//! How a conversation begins: TLS or not, who it is, and whether that is true.
//!
//! ```text
//!   SSLRequest? ──▶ S/N ──▶ StartupMessage ──▶ SCRAM ──▶ settings, key for cancelling ──▶ ready
//!                               │
//!                               └──▶ CancelRequest: the statement of a session ends, and this connection too
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use bytes::{Buf, BytesMut};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::PgWireFrontendMessage;
use pgwire::messages::startup::{Authentication, NegotiateProtocolVersion, PasswordMessageFamily};
use tokio::net::TcpStream;

use super::cancel::{Registered, Secret};
use super::frame::Frame;
use super::listener::{SqlListener, Tls};
use super::report::{self, Report};
use super::wire::{Ended, Wire};
use crate::admission::SqlLogin;
use crate::limit::Caller;
use crate::problem::Code;
use crate::scram::{BOUND_MECHANISM, Binding, Exchange, MECHANISM, end_point};

/// The longest message of an unauthenticated client.
pub(crate) const UNAUTHENTICATED_BYTES_MAX: usize = 10_000;

/// The first byte of TLS.
const TLS: u8 = 0x16;

/// The ALPN protocol of clients that begin with TLS instead of an `SSLRequest`.
const ALPN: &[u8] = b"postgresql";

const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;
const MAJOR: i32 = 3;
/// The newest supported protocol is 3.2.
const MINOR_MAX: i32 = 2;

/// How a client is connected.
enum Line {
    /// In the clear.
    Open,
    /// With TLS. The certificate that the client was shown is this to a proof, if it is something.
    Private(Option<Vec<u8>>),
}

/// The first packet of a connection.
enum First {
    /// A client wants to log in, with these parameters.
    Start { minor: i32, parameters: BTreeMap<String, String> },
    /// The statement of another session is to be cancelled.
    Cancel(i32, Secret),
}

/// A client with a session.
pub(crate) struct Arrived {
    /// The client.
    pub(crate) wire: Wire,
    /// The authenticated login.
    pub(crate) login: SqlLogin,
    /// The registration by which statements are cancelled.
    pub(crate) registered: Registered,
    /// The tenant, as the client spells it.
    pub(crate) tenant: String,
    /// Parameters of the startup packet.
    pub(crate) parameters: BTreeMap<String, String>,
}

/// Authenticates a client and starts its session; none if it gets no answer, or has got it.
pub(crate) async fn begin(
    listener: &SqlListener,
    stream: TcpStream,
    caller: IpAddr,
) -> Result<Option<Arrived>, Ended> {
    let (mut wire, line) = match greet(listener, stream).await? {
        Some(greeted) => greeted,
        None => return Ok(None),
    };
    let packet = match wire.first().await {
        Ok(Some(packet)) => packet,
        Ok(None) => return Ok(None),
        Err(Ended::Lost(lost)) => return refuse(wire, lost.into()).await,
        Err(gone) => return Err(gone),
    };
    let (minor, parameters) = match first_of(packet) {
        Ok(First::Start { minor, parameters }) => (minor, parameters),
        Ok(First::Cancel(id, secret)) => {
            listener.cancels.cancel(id, &secret);
            wire.close().await;
            return Ok(None);
        }
        Err(report) => return refuse(wire, report).await,
    };
    if listener.terms.needs_tls
        && matches!(line, Line::Open)
        && !caller.to_canonical().is_loopback()
    {
        let report = Report::new(report::NO_ENTRY, "this server is reached over TLS only");
        return refuse(wire, report.hint("connect with sslmode=require")).await;
    }
    let minor = negotiate(&mut wire, minor, &parameters)?;
    let user = parameters.get("user").map_or("", String::as_str);
    if user.is_empty() {
        return refuse(wire, Report::new(report::NO_ENTRY, "the client names no user")).await;
    }
    let tenant = parameters.get("database").filter(|name| !name.is_empty());
    let tenant = tenant.map_or(user, String::as_str);
    let who = Claim { caller, tenant, user };
    match authenticate(listener, &mut wire, &line, &who).await? {
        Ok(login) => {
            let registered = listener.cancels.register((listener.app.random)(), minor >= MINOR_MAX);
            wire.bytes_max = listener.terms.message_bytes_max;
            let tenant = tenant.to_owned();
            Ok(Some(Arrived { wire, login, registered, tenant, parameters }))
        }
        Err(report) => refuse(wire, report).await,
    }
}

/// Says no and hangs up.
pub(crate) async fn refuse<T>(mut wire: Wire, report: Report) -> Result<Option<T>, Ended> {
    wire.put(&report.fatal())?;
    wire.close().await;
    Ok(None)
}

/// Agrees on TLS, or that there is none.
async fn greet(listener: &SqlListener, stream: TcpStream) -> Result<Option<(Wire, Line)>, Ended> {
    let mut byte = [0];
    if stream.peek(&mut byte).await? > 0 && byte[0] == TLS {
        let Some(tls) = &listener.tls else { return Ok(None) };
        let shown = tls();
        let stream = shown.acceptor.accept(stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Ok(None);
        }
        let line = Line::Private(end_point(&shown.certificate));
        return Ok(Some((Wire::new(stream, UNAUTHENTICATED_BYTES_MAX), line)));
    }
    let mut wire = Wire::new(stream, UNAUTHENTICATED_BYTES_MAX);
    // Each may be asked once; what comes then is an answer to something else.
    for _ in 0..2 {
        match wire.peek_code().await? {
            Some(GSS_REQUEST) => {
                wire.first().await?;
                wire.send_byte(b'N').await?;
            }
            Some(SSL_REQUEST) => {
                wire.first().await?;
                let Some(tls) = &listener.tls else {
                    wire.send_byte(b'N').await?;
                    continue;
                };
                return encrypt(wire, tls).await;
            }
            _ => break,
        }
    }
    Ok(Some((wire, Line::Open)))
}

async fn encrypt(mut wire: Wire, tls: &Tls) -> Result<Option<(Wire, Line)>, Ended> {
    // Plaintext bytes after the `SSLRequest` were injected by an attacker.
    if !wire.has_read_all() {
        let text = "there is something in the clear behind the request for TLS";
        return refuse(wire, Report::new(report::PROTOCOL, text)).await;
    }
    wire.send_byte(b'S').await?;
    let shown = tls();
    let stream = shown.acceptor.accept(wire.into_line()).await?;
    let line = Line::Private(end_point(&shown.certificate));
    Ok(Some((Wire::new(stream, UNAUTHENTICATED_BYTES_MAX), line)))
}

fn first_of(mut packet: BytesMut) -> Result<First, Report> {
    let wrong = |text: &str| Report::new(report::PROTOCOL, text);
    packet.advance(4);
    let code = packet.get_i32();
    if code == CANCEL_REQUEST {
        let id = packet.try_get_i32().map_err(|_| wrong("the request to cancel is too short"))?;
        return Ok(First::Cancel(id, Secret::of(&packet)));
    }
    let (major, minor) = (code >> 16, code & 0xffff);
    if major != MAJOR {
        let text = format!("the protocol {major}.{minor} is not spoken here");
        return Err(Report::new(report::NOT_DONE, text).hint("this server speaks 3.0 to 3.2"));
    }
    let text = std::str::from_utf8(&packet).map_err(|_| wrong("the start is not UTF-8"))?;
    let text = text.strip_suffix('\0').ok_or_else(|| wrong("the start has no end"))?;
    let mut parameters = BTreeMap::new();
    let mut words = text.split('\0');
    while let Some(name) = words.next().filter(|name| !name.is_empty()) {
        let value = words.next().ok_or_else(|| wrong("a parameter has no value"))?;
        parameters.insert(name.to_owned(), value.to_owned());
    }
    Ok(First::Start { minor, parameters })
}

/// Tells a client what it asked for and does not get.
fn negotiate(
    wire: &mut Wire,
    minor: i32,
    parameters: &BTreeMap<String, String>,
) -> Result<i32, Ended> {
    let unknown: Vec<String> =
        parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    if minor <= MINOR_MAX && minor != 1 && unknown.is_empty() {
        return Ok(minor);
    }
    let spoken = if minor >= MINOR_MAX { MINOR_MAX } else { 0 };
    let message = NegotiateProtocolVersion::new((MAJOR << 16) | spoken, unknown);
    wire.put(&PgWireBackendMessage::NegotiateProtocolVersion(message))?;
    Ok(spoken)
}

/// A claimed identity.
struct Claim<'a> {
    caller: IpAddr,
    tenant: &'a str,
    user: &'a str,
}

/// Asks for a proof.
async fn authenticate(
    listener: &SqlListener,
    wire: &mut Wire,
    line: &Line,
    who: &Claim<'_>,
) -> Result<Result<SqlLogin, Report>, Ended> {
    let Claim { caller, tenant, user } = *who;
    let bound_to = match line {
        Line::Private(Some(bytes)) => Some(bytes.as_slice()),
        Line::Private(None) | Line::Open => None,
    };
    // The preferred mechanism comes first.
    let bound = bound_to.map(|_| BOUND_MECHANISM.to_owned());
    let mechanisms = bound.into_iter().chain([MECHANISM.to_owned()]).collect();
    say(wire, Authentication::SASL(mechanisms)).await?;
    let Some(first) = password_message(wire).await? else { return Ok(Err(out_of_order())) };
    let Some((mechanism, first)) = initial_response(&first) else { return Ok(Err(out_of_order())) };
    let binding = match (mechanism, bound_to) {
        (MECHANISM, None) => Binding::None,
        (MECHANISM, Some(_)) => Binding::Unused,
        (BOUND_MECHANISM, Some(bytes)) => Binding::To(bytes),
        _ => {
            let text = format!("the only way in is {MECHANISM}");
            return Ok(Err(Report::new(report::NO_ENTRY, text)));
        }
    };
    let challenge = match listener.app.authority.challenge(tenant, user).await {
        Ok(challenge) => challenge,
        Err(problem) => return Ok(Err(problem.into())),
    };
    let (salt, iterations) = challenge.terms();
    let malformed = |what: &str| Report::new(report::PROTOCOL, format!("the proof {what}"));
    let begun = Exchange::begin(first, salt, iterations, (listener.app.random)(), binding);
    let (exchange, reply) = match begun {
        Ok(begun) => begun,
        Err(wrong) => return Ok(Err(malformed(wrong.0))),
    };
    say(wire, Authentication::SASLContinue(reply.into())).await?;
    let Some(last) = password_message(wire).await? else { return Ok(Err(out_of_order())) };
    let proof = match exchange.proof(&last) {
        Ok(proof) => proof,
        Err(wrong) => return Ok(Err(malformed(wrong.0))),
    };
    match listener.app.authority.admit(&challenge, &proof).await {
        Ok(Some((login, signature))) => {
            wire.put(&PgWireBackendMessage::Authentication(Authentication::SASLFinal(
                signature.into(),
            )))?;
            wire.put(&PgWireBackendMessage::Authentication(Authentication::Ok))?;
            Ok(Ok(login))
        }
        Ok(None) => {
            let options = &listener.app.options;
            let caller = Some(Caller(caller));
            let refusal = listener.limits.refuse(caller, options.failure_rate, listener.app.now());
            Ok(Err(match refusal.code {
                Code::RateLimited => refusal.into(),
                _ => Report::new(
                    report::WRONG_PASSWORD,
                    format!("password authentication failed for user {user:?} in {tenant:?}"),
                )
                .hint(
                    "the password is a password or an API key, and the database is a tenant, \
                     such as default",
                ),
            }))
        }
        Err(problem) => Ok(Err(problem.into())),
    }
}

fn out_of_order() -> Report {
    Report::new(report::PROTOCOL, "a proof of the password was expected")
}

async fn say(wire: &mut Wire, what: Authentication) -> Result<(), Ended> {
    wire.put(&PgWireBackendMessage::Authentication(what))?;
    wire.flush().await
}

async fn password_message(wire: &mut Wire) -> Result<Option<BytesMut>, Ended> {
    let gone = || Ended::Gone(io::ErrorKind::UnexpectedEof.into());
    Ok(match wire.next().await?.ok_or_else(gone)? {
        Frame::Message(PgWireFrontendMessage::PasswordMessageFamily(
            PasswordMessageFamily::Raw(body),
        )) => Some(body),
        _ => None,
    })
}

/// The mechanism that a client chose, and its initial response.
fn initial_response(body: &[u8]) -> Option<(&str, &[u8])> {
    let end = body.iter().position(|byte| *byte == 0)?;
    let mechanism = std::str::from_utf8(&body[..end]).ok()?;
    let mut rest = &body[end + 1..];
    let length = rest.try_get_i32().ok()?;
    (usize::try_from(length).ok()? == rest.len()).then_some((mechanism, rest))
}
