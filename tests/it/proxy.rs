//! A line to a server, which can be cut: a node and its database, an agent and its server.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// State of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Everything passes.
    Open,
    /// Nothing passes, and neither side gets an error.
    Silent,
    /// Requests pass, responses do not.
    OneWay,
    /// Connections are ended, new ones too.
    Cut,
}

#[derive(Clone)]
pub struct Proxy {
    pub address: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    line: Line,
    /// Every connection, on both sides.
    open: Vec<TcpStream>,
}

impl Proxy {
    /// A line to a server, open at first.
    pub fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = State { line: Line::Open, open: Vec::new() };
        let proxy = Proxy { address, state: Arc::new((Mutex::new(state), Condvar::new())) };
        let taking = proxy.clone();
        std::thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                taking.connect(caller, &server);
            }
        });
        proxy
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, the line does this.
    pub fn set(&self, line: Line) {
        let mut state = self.lock();
        state.line = line;
        if line == Line::Cut {
            for stream in state.open.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.state.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, caller: TcpStream, server: &str) {
        let mut state = self.lock();
        if state.line == Line::Cut {
            return;
        }
        let Ok(server) = TcpStream::connect(server) else { return };
        let twin = |stream: &TcpStream| stream.try_clone().unwrap();
        state.open.extend([twin(&caller), twin(&server)]);
        for (from, to, holding) in [
            (twin(&caller), twin(&server), &[Line::Silent][..]),
            (server, caller, &[Line::Silent, Line::OneWay][..]),
        ] {
            let proxy = self.clone();
            std::thread::spawn(move || proxy.carry(from, to, holding));
        }
    }

    /// Carries bytes until one side ends; holds them back while the line is as `holding` says.
    fn carry(&self, mut from: TcpStream, mut to: TcpStream, holding: &[Line]) {
        let mut bytes = [0; 16_384];
        loop {
            let count = match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let mut state = self.lock();
            while holding.contains(&state.line) {
                state = self.state.1.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}
