//! A connection that is kept open, and requests on it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub struct Client {
    stream: BufReader<TcpStream>,
    address: String,
    key: String,
}

impl Client {
    pub fn connect(address: &str, key: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let stream = BufReader::new(stream);
        Ok(Client { stream, address: address.to_owned(), key: key.to_owned() })
    }

    pub fn get(&mut self, path: &str) -> Result<Value> {
        self.call("GET", path, "")
    }

    /// The answer to a request, which must be a success.
    pub fn call(&mut self, method: &str, path: &str, body: &str) -> Result<Value> {
        let body = self.exchange(method, path, body)?;
        Ok(serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// The same, as it came: what a server takes is not what its client makes of it.
    pub fn exchange(&mut self, method: &str, path: &str, body: &str) -> Result<Vec<u8>> {
        let (address, key, length) = (&self.address, &self.key, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        self.stream.get_mut().write_all((head + body).as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status: u16 = line.split(' ').nth(1).context("no HTTP")?.parse()?;
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        ensure!(status < 300, "{method} {path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}
