//! An endpoint that jobs call. It records each call and its fencing token independently of the
//! server, and answers when the test lets it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::serve::process::until;

/// One call of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub run: String,
    pub fence: i64,
    pub token: String,
}

/// The calls, each with its connection until it is answered.
type Calls = Arc<Mutex<Vec<(Effect, Option<TcpStream>)>>>;

pub struct Ledger {
    address: SocketAddr,
    calls: Calls,
}

impl Ledger {
    pub fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Calls::default();
        let kept = Arc::clone(&calls);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    if let Some(effect) = read(&stream) {
                        kept.lock().unwrap().push((effect, Some(stream)));
                    }
                });
            }
        });
        Ledger { address, calls }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// The calls of a run, in order.
    pub fn of(&self, run: &str) -> Vec<Effect> {
        let calls = self.calls.lock().unwrap();
        calls.iter().map(|(effect, _)| effect.clone()).filter(|effect| effect.run == run).collect()
    }

    /// Waits until so many attempts of a run have called.
    pub fn wait(&self, run: &str, count: usize) -> Vec<Effect> {
        until(|| Some(self.of(run)).filter(|effects| effects.len() >= count))
    }

    /// Answers the call of an attempt of a run, from 0. The client may be gone.
    pub fn answer(&self, run: &str, attempt: usize, text: &str) {
        let mut calls = self.calls.lock().unwrap();
        let mut of_run = calls.iter_mut().filter(|(effect, _)| effect.run == run);
        let mut stream = of_run.nth(attempt).unwrap().1.take().unwrap();
        let length = text.len();
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{text}"
        );
    }
}

fn read(stream: &TcpStream) -> Option<Effect> {
    let (mut run, mut fence, mut token) = (None, None, String::new());
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if line.is_empty() {
            return Some(Effect { run: run?, fence: fence?, token });
        }
        let (name, value) = line.split_once(": ").unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "punctual-run" => run = Some(value.to_owned()),
            "punctual-fence" => fence = value.parse().ok(),
            "x-token" => value.clone_into(&mut token),
            _ => {}
        }
    }
    None
}
