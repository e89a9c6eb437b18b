//! Restarts, crashes and promotions of servers.

use std::fs;
use std::process::{Command, Stdio};

use super::{OWNER, Server, kill, programs};

/// One order to PostgreSQL's own control program, which waits until it is carried out.
const CONTROL: &str =
    r#"exec $as "$bin/pg_ctl" --pgdata "$dir/data" --wait --timeout 60 --log "$dir/log" "$@""#;

/// How a server is stopped.
#[derive(Clone, Copy, Debug)]
pub enum Stop {
    /// Sessions are ended, what was committed is written.
    Fast,
    /// As in a crash: the next start recovers.
    Immediate,
}

impl Server {
    /// Stops the server and starts it again, with the same settings.
    pub fn restart(&self, stop: Stop) {
        let mode = match stop {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        self.control(&["restart", "--mode", mode]);
    }

    /// Ends the server without asking it; its sessions end when they notice.
    pub fn crash(&self) {
        let process = i32::try_from(self.process()).expect("the number of a process");
        assert!(kill(process), "the server of the tests is not running");
        fs::remove_file(self.folder.join("data/postmaster.pid")).expect("it said who it was");
    }

    /// Makes a copy that follows another server one that takes writes.
    pub fn promote(&self) {
        self.control(&["promote"]);
    }

    fn control(&self, order: &[&str]) {
        let status = Command::new("sh")
            .args(["-c", &format!("{OWNER}{CONTROL}"), "control"])
            .args(order)
            .env("dir", &self.folder)
            .env("bin", programs())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        assert!(status.is_ok_and(|status| status.success()), "pg_ctl {order:?}:\n{log}");
    }
}
