//! A command from its start to its end, with the helpers around it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::run::AttemptEnd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use super::{ExternalOptions, LOST_GRACE};
use crate::exec::RESULT_BYTES_MAX;
use crate::output::{Stream, Veiled};
use crate::sandbox::cgroup::{self, Cgroup};
use crate::sandbox::spec::{self, Ended, Limits, Message, Outer, Spec};
use crate::sandbox::{Feature, Level, MARK, Report};
use crate::stop::Stop;

/// How long the helpers may take to kill what they were told to kill.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// How long output that is still under way is waited for when everything has ended.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// How much of the end of the complaints is remembered for the message.
const LAST_WORDS: usize = 400;

/// A command that was started. Dropping it closes the socket, and the helpers then kill
/// everything.
pub(super) struct Launched {
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    cgroup: Option<Cgroup>,
    group_report: Result<String, String>,
}

/// What the helpers have said.
#[derive(Default)]
pub(super) struct Told {
    pub report: Option<Report>,
    pub refused: Option<(String, String)>,
    pub ended: Option<Ended>,
    pub swept: u32,
}

/// How it ended.
pub(super) struct Ending {
    pub told: Told,
    /// Why it was asked to stop, if it was.
    pub stopped: Option<AttemptEnd>,
    pub was_killed: bool,
    /// Bytes of the two streams.
    pub bytes: [u64; 2],
    /// All that it said, unless that is too much for a result.
    pub said: Option<Vec<u8>>,
    /// The end of its complaints.
    pub last_words: Vec<u8>,
    /// Whether all of its processes are gone.
    pub is_clean: bool,
}

impl Launched {
    /// Starts the helpers and tells them what to do. The name is for the control group.
    pub async fn new(options: &ExternalOptions, spec: Spec, name: &str) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (reader, mut writer) = UnixStream::from_std(ours)?.into_split();
        let mut child = Command::new(&options.helper)
            .arg(MARK)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // The helper waits for its first message, so nothing starts outside the group.
        let (name, level, limits, id) = (name.to_owned(), spec.sandbox, spec.limits, child.id());
        let group = tokio::task::spawn_blocking(move || group(&name, level, &limits, id));
        let (cgroup, group_report) = match group.await.map_err(io::Error::from).flatten() {
            Ok((cgroup, does)) => (Some(cgroup), Ok(does)),
            Err(error) => (None, Err(error.to_string())),
        };
        let outer = Outer { sandbox: spec.sandbox, deny_network: spec.deny_network };
        let message = [spec::encode(&outer)?, spec::encode(&spec)?].concat();
        // A helper that is gone has closed the socket; the reader will see why.
        let _ = writer.write_all(&message).await;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Ok(Launched { child, stdout, stderr, reader, writer, cgroup, group_report })
    }

    /// What the helpers say when there is no command.
    pub async fn answer(self) -> Told {
        let (_quiet, requests) = tokio::sync::watch::channel(None);
        let stop = &mut Stop::new(requests);
        let ending = self.finish(&Veiled::default(), stop, Duration::ZERO).await;
        ending.told
    }

    /// Waits for the end, or brings it about.
    pub async fn finish(mut self, output: &Veiled, stop: &mut Stop, grace: Duration) -> Ending {
        let stopped = OnceLock::new();
        let was_killed = AtomicBool::new(false);
        let mut streams = [Stream::Stdout, Stream::Stderr].map(Pump::new);
        let told = {
            let [first, second] = &mut streams;
            let pumps = async {
                tokio::join!(
                    first.run(self.stdout.take(), output),
                    second.run(self.stderr.take(), output)
                )
            };
            let mut pumps = pin!(pumps);
            let cgroup = self.cgroup.as_ref();
            let ender = Ender { writer: &mut self.writer, child: &mut self.child, cgroup };
            let mut ender = pin!(ender.run(stop, grace, &stopped, &was_killed));
            let mut listening = pin!(listen(&mut self.reader));
            let mut is_drained = false;
            let told = loop {
                tokio::select! {
                    told = &mut listening => break told,
                    _ = &mut pumps, if !is_drained => is_drained = true,
                    never = &mut ender => match never {},
                }
            };
            if !is_drained {
                // Everything has ended, so the pipes end too. If not, nobody waits for long.
                let _ = timeout(DRAIN_PATIENCE, pumps).await;
            }
            told
        };
        let _ = timeout(KILL_PATIENCE, self.child.wait()).await;
        let is_clean = match self.cgroup.take() {
            Some(cgroup) => cgroup.end().await,
            None => true,
        };
        let mut told = told;
        if let Some(report) = &mut told.report {
            report.note(Feature::ControlGroup, self.group_report);
        }
        let bytes = [streams[0].bytes, streams[1].bytes];
        let last_words = streams[1].last_line();
        let said = std::mem::take(&mut streams[0].first);
        let said = (said.len() <= RESULT_BYTES_MAX).then_some(said);
        let (stopped, was_killed) = (stopped.into_inner(), was_killed.into_inner());
        Ending { told, stopped, was_killed, bytes, said, last_words, is_clean }
    }
}

fn group(
    name: &str,
    level: Level,
    limits: &Limits,
    process: Option<u32>,
) -> io::Result<(Cgroup, String)> {
    let process = process.ok_or_else(|| io::Error::other("the helper has ended"))?;
    if level == Level::Required && !cgroup::has_limits() {
        // The namespace kills as well, and a move into a group takes milliseconds.
        return Err(io::Error::other("no controllers, and the pid namespace kills as well"));
    }
    let (cgroup, does) = Cgroup::new(name, limits)?;
    cgroup.add(process)?;
    Ok((cgroup, does))
}

/// Hears the helpers out, until both of them have ended.
async fn listen(reader: &mut OwnedReadHalf) -> Told {
    let mut told = Told::default();
    while let Ok(length) = reader.read_u32().await {
        if length > spec::MESSAGE_BYTES_MAX {
            break;
        }
        let mut text = vec![0; length as usize];
        if reader.read_exact(&mut text).await.is_err() {
            break;
        }
        match serde_json::from_slice(&text) {
            Ok(Message::Report(report)) => told.report = Some(report),
            Ok(Message::Refused { code, message }) => told.refused = Some((code, message)),
            Ok(Message::Ended(ended)) => told.ended = Some(ended),
            Ok(Message::Swept(count)) => told.swept = count,
            Err(error) => tracing::error!(%error, "the sandbox's helper sent something unknown"),
        }
    }
    told
}

/// Ends a command when that is asked for: kindly, then by force, then by every force.
struct Ender<'a> {
    writer: &'a mut OwnedWriteHalf,
    child: &'a mut Child,
    cgroup: Option<&'a Cgroup>,
}

impl Ender<'_> {
    async fn run(
        self,
        stop: &mut Stop,
        grace: Duration,
        stopped: &OnceLock<AttemptEnd>,
        was_killed: &AtomicBool,
    ) -> Infallible {
        let end = stop.requested().await;
        let _ = stopped.set(end);
        // A helper that cannot be told has ended.
        let _ = self.writer.write_all(&[spec::TERMINATE]).await;
        sleep(if end == AttemptEnd::Lost { grace.min(LOST_GRACE) } else { grace }).await;
        was_killed.store(true, Ordering::Relaxed);
        let _ = self.writer.write_all(&[spec::KILL]).await;
        sleep(KILL_PATIENCE).await;
        tracing::warn!("the sandbox's helper does not answer");
        if let Some(cgroup) = self.cgroup {
            cgroup.kill();
        }
        // The outer helper takes this for the agent's end, and cleans up alone.
        let _ = self.writer.shutdown().await;
        sleep(2 * KILL_PATIENCE).await;
        let _ = self.child.start_kill();
        std::future::pending().await
    }
}

/// Carries one stream of a command to its output.
struct Pump {
    stream: Stream,
    bytes: u64,
    /// The beginning, a byte longer than a result may be.
    first: Vec<u8>,
    last: VecDeque<u8>,
}

impl Pump {
    fn new(stream: Stream) -> Self {
        Pump { stream, bytes: 0, first: Vec::new(), last: VecDeque::new() }
    }

    async fn run(&mut self, from: Option<impl AsyncRead + Unpin>, output: &Veiled) {
        let Some(mut from) = from else { return };
        let mut buffer = vec![0; 64 << 10];
        // A pipe that cannot be read any more has ended.
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            self.bytes += length as u64;
            self.keep(&output.write(self.stream, &buffer[..length]));
        }
        self.keep(&output.end(self.stream));
    }

    /// Keeps what may be shown of the beginning and of the end.
    fn keep(&mut self, bytes: &[u8]) {
        let room = (RESULT_BYTES_MAX + 1).saturating_sub(self.first.len());
        self.first.extend(&bytes[..bytes.len().min(room)]);
        self.last.extend(&bytes[bytes.len().saturating_sub(LAST_WORDS)..]);
        let excess = self.last.len().saturating_sub(LAST_WORDS);
        self.last.drain(..excess);
    }

    /// The last line that says something.
    fn last_line(&self) -> Vec<u8> {
        let bytes: Vec<u8> = self.last.iter().copied().collect();
        let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
        let mut lines = lines.map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        lines.next_back().unwrap_or_default().to_vec()
    }
}
