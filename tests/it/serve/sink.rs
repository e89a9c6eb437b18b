//! Something that a server sends requests to.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::process::{SOON, until};

/// A sink and its address.
pub fn sink() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// The next request: head and body. It is answered with a status such as `204 No Content`.
pub fn received(listener: &TcpListener, status: &str) -> (String, String) {
    let mut stream: TcpStream = until(|| listener.accept().ok()).0;
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 16_384];
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "the request ends early: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&part[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let body = &bytes[end + 4..];
        let length = header(head, "content-length").parse().unwrap_or(0);
        if body.len() >= length {
            let answer =
                format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            return (head.to_owned(), String::from_utf8(body.to_vec()).unwrap());
        }
    }
}

/// A field of a head; nothing when it is not there.
pub fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
    found.map_or("", |(_, value)| value.trim())
}
