//! The load generator: one thread that keeps many connections busy with one request.
//!
//! It shares two cores with the server, so it must be cheap: the request is prepared once, and of
//! an answer only the status and the length are read.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::percentiles;

/// A request that is sent again and again.
#[derive(Clone, Debug)]
pub struct Request {
    bytes: Vec<u8>,
    status: u16,
}

impl Request {
    /// A request with a key, which must be answered with this status.
    pub fn new(method: &str, path: &str, key: Option<&str>, body: &str, status: u16) -> Self {
        let key = key.map_or_else(String::new, |key| format!("Authorization: Bearer {key}\r\n"));
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{key}Content-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        Request { bytes: (head + body).into_bytes(), status }
    }
}

/// When a load ends.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this time.
    Time(Duration),
    /// After so many requests on each connection.
    Requests(usize),
}

/// Result of a load.
pub struct Answered {
    /// How long it took.
    pub took: Duration,
    /// How long each request took, in milliseconds.
    pub latencies: Vec<f64>,
    /// Bytes of one answer.
    pub answer_bytes: usize,
}

impl Answered {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    /// Rate and percentiles.
    pub fn measurement(&self) -> Value {
        let latency = percentiles(self.latencies.clone());
        json!({
            "per_second": self.rate().round(), "ms": latency, "answer_bytes": self.answer_bytes,
        })
    }
}

/// Sends a request on each of so many connections, the next one when the answer has come.
pub fn load(
    address: &str,
    request: &Request,
    connections: usize,
    until: Until,
) -> Result<Answered> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        let mut open = Vec::with_capacity(connections);
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            open.push(stream);
        }
        let begun = Instant::now();
        for stream in open {
            tasks.spawn(keep_busy(stream, request.clone(), begun, until));
        }
        let (mut latencies, mut answer_bytes) = (Vec::new(), 0);
        while let Some(done) = tasks.join_next().await {
            let (more, bytes) = done??;
            latencies.extend(more);
            answer_bytes = bytes;
        }
        Ok(Answered { took: begun.elapsed(), latencies, answer_bytes })
    })
}

async fn keep_busy(
    stream: TcpStream,
    request: Request,
    begun: Instant,
    until: Until,
) -> Result<(Vec<f64>, usize)> {
    let (mut latencies, mut buffer, mut bytes) = (Vec::new(), vec![0; 256 << 10], 0);
    loop {
        let sent = Instant::now();
        let is_over = match until {
            Until::Time(time) => sent.duration_since(begun) >= time,
            Until::Requests(count) => latencies.len() >= count,
        };
        if is_over {
            return Ok((latencies, bytes));
        }
        write(&stream, &request.bytes).await?;
        bytes = read(&stream, &mut buffer, request.status).await?;
        latencies.push(sent.elapsed().as_secs_f64() * 1e3);
    }
}

async fn write(stream: &TcpStream, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads one answer; answers its length.
async fn read(stream: &TcpStream, buffer: &mut [u8], status: u16) -> Result<usize> {
    let (mut filled, mut wanted) = (0, None);
    loop {
        if wanted.is_some_and(|wanted| filled >= wanted) {
            return Ok(filled);
        }
        ensure!(filled < buffer.len(), "the answer is longer than {} bytes", buffer.len());
        match stream.try_read(&mut buffer[filled..]) {
            Ok(0) => anyhow::bail!("the server closed the connection"),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                stream.readable().await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        if wanted.is_none() {
            wanted = length(&buffer[..filled], status)?;
        }
    }
}

/// The length of an answer, once its head is there.
fn length(bytes: &[u8], status: u16) -> Result<Option<usize>> {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes[..head])?;
    let mut lines = text.split("\r\n");
    let first = lines.next().and_then(|line| line.split(' ').nth(1)).context("no HTTP")?;
    ensure!(first.parse::<u16>()? == status, "{}", String::from_utf8_lossy(bytes));
    let body = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(Ok(0), |(_, value)| value.trim().parse::<usize>())?;
    Ok(Some(head + 4 + body))
}
