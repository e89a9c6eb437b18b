//! HTTP/1.1 over a socket of the standard library. TLS is left to a [`Transport`] of the caller, or to
//! a proxy on the same machine.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

/// The largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// An answer of the server.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends requests.
pub trait Transport: Send + Sync {
    /// Sends JSON with POST, and waits at most so long for the answer.
    fn post(
        &self,
        path: &str,
        token: Option<&str>,
        body: &[u8],
        timeout: Duration,
    ) -> io::Result<Response>;
}

/// Plain HTTP. Connections are kept open and used again.
pub struct HttpTransport {
    address: String,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
}

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

impl HttpTransport {
    /// For a server at `http://host:port`.
    pub fn new(url: &str) -> io::Result<Self> {
        let rest = url.strip_prefix("http://");
        let rest = rest.ok_or_else(|| invalid(format!("{url:?} is not http://host:port")))?;
        let host = rest.split('/').next().unwrap_or(rest);
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { host.to_owned() } else { format!("{host}:80") };
        Ok(HttpTransport { address, idle: Mutex::default() })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<BufReader<TcpStream>>> {
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn exchange(
        &self,
        connection: &mut BufReader<TcpStream>,
        head: &str,
        body: &[u8],
    ) -> io::Result<(Response, bool)> {
        let stream = connection.get_mut();
        stream.write_all(&[head.as_bytes(), body].concat())?;
        let status = line(connection)?;
        let number = status.split(' ').nth(1).and_then(|word| word.parse().ok());
        let number: u16 = number.ok_or_else(|| invalid(format!("not HTTP: {status:?}")))?;
        let (mut length, mut is_chunked, mut is_kept) = (None, false, true);
        loop {
            let header = line(connection)?;
            let Some((name, value)) = header.split_once(':') else { break };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse::<u64>().ok(),
                "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
                "connection" => is_kept = !value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        let mut body = Vec::new();
        if is_chunked {
            loop {
                let size = line(connection)?;
                let size = size.split(';').next().unwrap_or_default();
                let size = u64::from_str_radix(size.trim(), 16).map_err(|_| invalid("bad chunk"))?;
                read_exact(connection, size, &mut body)?;
                line(connection)?;
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = length {
            read_exact(connection, length, &mut body)?;
        }
        Ok((Response { status: number, body }, is_kept))
    }
}

fn line(connection: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    if connection.by_ref().take(64 << 10).read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn read_exact(from: &mut impl Read, count: u64, to: &mut Vec<u8>) -> io::Result<()> {
    if to.len() as u64 + count > ANSWER_BYTES_MAX {
        return Err(invalid("the answer is too long"));
    }
    let read = from.take(count).read_to_end(to)?;
    if read as u64 == count { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl Transport for HttpTransport {
    fn post(
        &self,
        path: &str,
        token: Option<&str>,
        body: &[u8],
        timeout: Duration,
    ) -> io::Result<Response> {
        let key = token.map(|token| format!("authorization: Bearer {token}\r\n"));
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{}content-length: {}\r\n\r\n",
            self.address,
            key.unwrap_or_default(),
            body.len()
        );
        let idle = self.idle().pop();
        let was_idle = idle.is_some();
        let connect = || -> io::Result<BufReader<TcpStream>> {
            let stream = TcpStream::connect(&self.address)?;
            stream.set_nodelay(true)?;
            Ok(BufReader::new(stream))
        };
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect()?,
        };
        connection.get_ref().set_read_timeout(Some(timeout))?;
        let mut answer = self.exchange(&mut connection, &head, body);
        // The server may have closed a connection that was idle. A request that is sent again is
        // answered as the first time: reports have fences, polls have numbers.
        let is_closed = |error: &io::Error| error.kind() != io::ErrorKind::WouldBlock;
        if was_idle && answer.as_ref().err().is_some_and(is_closed) {
            connection = connect()?;
            connection.get_ref().set_read_timeout(Some(timeout))?;
            answer = self.exchange(&mut connection, &head, body);
        }
        let (response, is_kept) = answer?;
        if is_kept {
            self.idle().push(connection);
        }
        Ok(response)
    }
}
