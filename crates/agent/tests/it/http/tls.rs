//! Encrypted connections: certificates, protocols and redirects.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use agent::HttpOptions;
use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::server::{Server, answer, finish, read_request};
use super::{Ended, agent, allowing, assignment, execute, run};

/// An acceptor with a certificate for these names, and the certificate in PEM.
fn acceptor(names: &[&str], protocols: &[&str]) -> (TlsAcceptor, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), cert.pem())
}

/// A server with a certificate for these names, in PEM, and the same response for every request.
async fn secure(names: &[&str], answer: Vec<u8>) -> (Server, String) {
    let (acceptor, pem) = acceptor(names, &[]);
    let answer: Arc<[u8]> = answer.into();
    let server = Server::accept("127.0.0.1:0", move |socket| {
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        async move {
            let Ok(mut socket) = acceptor.accept(socket).await else { return };
            if read_request(&mut socket).await.is_some() {
                finish(&mut socket, &answer).await;
            }
        }
    })
    .await;
    (server, pem)
}

async fn call(server: &Server, roots: Vec<String>) -> Ended {
    let options = HttpOptions { root_certificates: roots, ..allowing(&["127.0.0.1"]) };
    let action = json!({ "endpoint": format!("https://{}/", server.address), "method": "GET" });
    execute(&agent(options), &assignment(action)).await
}

#[tokio::test]
async fn only_certificates_of_known_authorities_count() {
    let (server, pem) = secure(&["127.0.0.1"], answer(200, &[], "[1]")).await;
    let ended = call(&server, vec![]).await;
    ended.assert_failed("TLS", "no secure connection to https://127.0.0.1");
    assert!(ended.result.message.contains("certificate"), "{:?}", ended.result);
    let ended = call(&server, vec![pem.clone()]).await;
    ended.assert_completed();
    assert_eq!(ended.result.result.as_deref(), Some("[1]"));

    let (other, other_pem) = secure(&["other.example"], answer(200, &[], "")).await;
    call(&other, vec![other_pem]).await.assert_failed("TLS", "not valid for name");
}

#[tokio::test]
async fn what_does_not_speak_it_is_told() {
    let plain = Server::accept("127.0.0.1:0", |mut socket| async move {
        finish(&mut socket, &answer(400, &[], "")).await;
    })
    .await;
    let url = format!("https://{}/", plain.address);
    let ended = run(json!({ "endpoint": url })).await;
    ended.assert_failed("TLS", "no secure connection to https://127.0.0.1");
}

#[tokio::test]
async fn a_redirect_never_gives_up_encryption() {
    let plain = Server::answering(answer(200, &[], "")).await;
    let location = plain.url("/");
    let (server, pem) = secure(&["127.0.0.1"], answer(302, &[("location", &location)], "")).await;
    let ended = call(&server, vec![pem]).await;
    ended.assert_failed("REDIRECT_NOT_ALLOWED", "which is not encrypted");
    assert_eq!(plain.connections(), 0);
}

#[tokio::test]
async fn a_certificate_that_is_none_is_reported_by_the_attempt() {
    let server = Server::answering(answer(200, &[], "")).await;
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    call(&server, vec![broken]).await.assert_failed("HTTP_NOT_AVAILABLE", "certificate");
    assert_eq!(server.connections(), 0);
}

/// A body that never ends, and counts.
struct Endless(Arc<AtomicUsize>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.fetch_add(1 << 14, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1 << 14])))))
    }
}

#[tokio::test]
async fn the_second_version_of_the_protocol_has_the_same_limits() {
    let (acceptor, pem) = acceptor(&["127.0.0.1"], &["h2"]);
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = sent.clone();
    let server = Server::accept("127.0.0.1:0", move |socket| {
        let (acceptor, counter) = (acceptor.clone(), counter.clone());
        async move {
            let socket = TokioIo::new(acceptor.accept(socket).await.unwrap());
            let serve = service_fn(move |request: hyper::Request<Incoming>| {
                let counter = counter.clone();
                async move {
                    assert!(request.headers().contains_key("punctual-run"));
                    let body = match request.uri().path() {
                        "/endless" => Either::Left(Endless(counter)),
                        _ => Either::Right(Full::new(Bytes::from_static(b"[2]"))),
                    };
                    Ok::<_, Infallible>(hyper::Response::new(body))
                }
            });
            // The client leaves when it has had enough, which is an error here.
            let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(socket, serve).await;
        }
    })
    .await;
    let options = HttpOptions { root_certificates: vec![pem], ..allowing(&["127.0.0.1"]) };
    let agent = agent(options);
    for (path, cut, result) in [("/", false, Some("[2]")), ("/endless", true, None)] {
        let url = format!("https://{}{path}", server.address);
        let ended = execute(&agent, &assignment(json!({ "endpoint": url, "body": [1] }))).await;
        ended.assert_completed();
        assert_eq!(ended.details()["http_version"], "HTTP/2.0");
        assert_eq!(ended.details()["body_cut"], cut);
        assert_eq!(ended.result.result.as_deref(), result);
    }
    assert!(sent.load(Ordering::SeqCst) < 16 << 20, "{sent:?}");
    assert_eq!(server.connections(), 1, "both go over one connection");
}
