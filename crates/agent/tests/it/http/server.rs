//! A server that does to each request whatever its test wants, also what no server should.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A connection, encrypted or not.
pub trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    /// The value of a header, which must not come twice.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} came twice");
        value
    }
}

/// A server that ends with its test.
pub struct Server {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Serves one request on each connection with this function.
    pub async fn start<F, R>(serve: F) -> Self
    where
        F: Fn(Received, TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self::start_on("127.0.0.1:0", serve).await
    }

    /// The same on an address of the test's choice.
    pub async fn start_on<F, R>(address: &str, serve: F) -> Self
    where
        F: Fn(Received, TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let received = Arc::new(Mutex::new(Vec::new()));
        let (serve, seen) = (Arc::new(serve), received.clone());
        let mut server = Self::accept(address, move |mut socket| {
            let (serve, seen) = (serve.clone(), seen.clone());
            async move {
                let Some(request) = read_request(&mut socket).await else { return };
                seen.lock().unwrap().push(request.clone());
                serve(request, socket).await;
            }
        })
        .await;
        server.received = received;
        server
    }

    /// Passes each connection to the function before anything is read from it.
    pub async fn accept<F, R>(address: &str, serve: F) -> Self
    where
        F: Fn(TcpStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counter = connections.clone();
        let task = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(socket));
            }
        });
        Server { address, connections, received: Arc::default(), task }
    }

    /// Answers every request with these bytes.
    pub async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        Self::answering_on("127.0.0.1:0", answer).await
    }

    /// The same on an address of the test's choice.
    pub async fn answering_on(address: &str, answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start_on(address, move |_, mut socket| {
            let answer = answer.clone();
            async move { finish(&mut socket, &answer).await }
        })
        .await
    }

    /// A URL of this server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many connections came.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The requests so far.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The only request.
    pub fn only(&self) -> Received {
        let mut received = self.received();
        assert_eq!(received.len(), 1, "{received:?}");
        received.remove(0)
    }
}

/// Sends the last bytes and waits until the other side has gone, so that nothing is reset.
pub async fn finish(socket: &mut (impl Wire + ?Sized), bytes: &[u8]) {
    if socket.write_all(bytes).await.is_ok() && socket.shutdown().await.is_ok() {
        let mut rest = [0; 1_024];
        while matches!(socket.read(&mut rest).await, Ok(1..)) {}
    }
}

/// Sends the same bytes again and again until the other side closes; counts the bytes.
pub async fn flood(socket: &mut (impl Wire + ?Sized), bytes: &[u8], counter: &AtomicUsize) {
    while socket.write_all(bytes).await.is_ok() {
        counter.fetch_add(bytes.len(), Ordering::SeqCst);
    }
}

/// An answer with a body of known length.
pub fn answer(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        answer += &format!("{name}: {value}\r\n");
    }
    let mut answer = (answer + "\r\n").into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// Reads a request; none when the connection ends before it does.
pub async fn read_request(socket: &mut (impl Wire + ?Sized)) -> Option<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        })
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = bytes[head_end + 4..].to_vec();
    while body.len() < length {
        if socket.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received { method, path, headers, body })
}
