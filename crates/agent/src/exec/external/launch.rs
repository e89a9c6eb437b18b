//! A command from its start to its end.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::run::AttemptEnd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{ReadHalf, WriteHalf, pipe};
use tokio::time::{sleep, timeout};

use super::launcher::{Init, Launcher, RunningLauncher, Streams};
use super::{ExternalOptions, LOST_GRACE};
use crate::exec::RESULT_BYTES_MAX;
use crate::output::{Masked, Stream};
use crate::sandbox::cgroup::Cgroup;
use crate::sandbox::scratch::Scratch;
use crate::sandbox::spec::{self, Command, Ended, HelperMessage, Limits, Spec};
use crate::sandbox::{Feature, Report};
use crate::stop::Stop;

/// How long the helpers may take to kill processes after a request.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long output that is still under way is waited for when everything has ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How much of the end of the complaints is remembered for the message.
const LAST_WORDS: usize = 400;

/// A command that was started. Dropping it closes the socket, and the helpers then kill
/// everything.
pub(crate) struct Launched<'a> {
    launcher: &'a Launcher,
    running: Arc<RunningLauncher>,
    init: Init,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    /// What an artifact writes to the file of its result.
    result: Option<pipe::Receiver>,
    cgroup: Option<Cgroup>,
    group_report: Result<String, String>,
    /// Deleted at the end, where the command has no root directory of its own.
    scratch: Option<Scratch>,
}

/// The messages of the helpers.
#[derive(Default)]
pub(crate) struct HelperMessages {
    pub report: Option<Report>,
    pub refused: Option<(String, String)>,
    pub ended: Option<Ended>,
    pub swept: u32,
    /// Whether no process of the command is left, and no message about it will follow.
    pub is_over: bool,
}

/// How it ended.
pub(crate) struct CommandEnding {
    pub told: HelperMessages,
    /// Why it was asked to stop, if it was.
    pub stopped: Option<AttemptEnd>,
    pub was_killed: bool,
    /// Bytes of the two streams.
    pub bytes: [u64; 2],
    /// Its whole output, unless that is too long for a result.
    pub said: Option<Vec<u8>>,
    /// The end of its complaints.
    pub last_words: Vec<u8>,
    /// Whether all of its processes are gone.
    pub is_clean: bool,
    /// What an artifact wrote to the file of its result, unless that is too much.
    pub result: Option<Vec<u8>>,
}

impl<'a> Launched<'a> {
    /// Asks the launcher for the command. The name is for its control group and its scratch
    /// directory.
    pub async fn new(
        launcher: &'a Launcher,
        options: &ExternalOptions,
        command: Option<Command>,
        name: &str,
    ) -> io::Result<Self> {
        let mut running = launcher.running(options).await?;
        let (cgroup, group_report) = match group(&running, name, &options.limits).await {
            Ok((cgroup, does)) => (Some(cgroup), Ok(does)),
            Err(error) => (None, Err(error.to_string())),
        };
        let scratch = match running.ready.has_root {
            true => None,
            false => Some(scratch(options, name)?),
        };
        let has_result = command.as_ref().is_some_and(|command| command.artifact.is_some());
        let spec = Spec {
            command,
            scratch: scratch.as_ref().map(|scratch| scratch.path().to_owned()),
            memory_is_grouped: cgroup.as_ref().is_some_and(|cgroup| cgroup.has_memory),
        };
        let spec = spec::encode(&spec)?;
        let entrance = || cgroup.as_ref().map(Cgroup::entrance).transpose();
        let started = running.start(&spec, has_result, entrance()?).await;
        let Streams { init, stdout, stderr, result } = match started {
            Ok(streams) => streams,
            // It was killed. Another one takes its place.
            Err(_) => {
                launcher.forget(&running).await;
                running = launcher.running(options).await?;
                running.start(&spec, has_result, entrance()?).await?
            }
        };
        let (stdout, stderr) = (Some(stdout), Some(stderr));
        Ok(Launched {
            launcher,
            running,
            init,
            stdout,
            stderr,
            result,
            cgroup,
            group_report,
            scratch,
        })
    }

    /// The messages of the helpers when there is no command.
    pub async fn answer(self) -> HelperMessages {
        let (_quiet, requests) = tokio::sync::watch::channel(None);
        let stop = &mut Stop::new(requests);
        let ending = self.finish(&Masked::default(), stop, Duration::ZERO).await;
        ending.told
    }

    /// Waits for the end, or brings it about.
    pub async fn finish(
        mut self,
        output: &Masked,
        stop: &mut Stop,
        grace: Duration,
    ) -> CommandEnding {
        let stopped = OnceLock::new();
        let was_killed = AtomicBool::new(false);
        let mut streams = [Stream::Stdout, Stream::Stderr].map(StreamReader::new);
        let mut result = Vec::new();
        let told = {
            let [first, second] = &mut streams;
            let readers = async {
                tokio::join!(
                    first.run(self.stdout.take(), output),
                    second.run(self.stderr.take(), output),
                    read_result(self.result.take(), &mut result)
                )
            };
            let mut readers = pin!(readers);
            let cgroup = self.cgroup.as_ref();
            let (mut reader, mut writer) = self.init.socket.split();
            let ender = Ender { writer: &mut writer, cgroup };
            let mut ender = pin!(ender.run(stop, grace, &stopped, &was_killed));
            let mut listening = pin!(listen(&mut reader));
            let mut is_drained = false;
            let told = loop {
                tokio::select! {
                    told = &mut listening => break Some(told),
                    _ = &mut readers, if !is_drained => is_drained = true,
                    () = &mut ender => break None,
                }
            };
            if !is_drained {
                // All processes have ended, so the pipes end too. The timeout covers a pipe that
                // stays open.
                let _ = timeout(DRAIN_TIMEOUT, readers).await;
            }
            told
        };
        let is_group_gone = match self.cgroup.take() {
            Some(cgroup) => cgroup.end().await,
            None => true,
        };
        let is_clean = is_group_gone && told.is_some();
        if told.is_none() {
            // A launcher that does not answer starts no other command either.
            tracing::error!("processes of a command could not be killed");
            self.launcher.forget(&self.running).await;
        }
        if told.as_ref().is_some_and(|told| told.is_over) && stopped.get().is_none() {
            self.running.release(self.init);
        }
        if let Some(scratch) = self.scratch {
            // It may hold many files.
            let _ = tokio::task::spawn_blocking(move || drop(scratch)).await;
        }
        let mut told = told.unwrap_or_default();
        if let Some(report) = &mut told.report
            && !report.missing.contains_key(&Feature::ControlGroup)
        {
            report.note(Feature::ControlGroup, self.group_report);
        }
        let bytes = [streams[0].bytes, streams[1].bytes];
        let last_words = streams[1].last_line();
        let said = std::mem::take(&mut streams[0].first);
        let said = (said.len() <= RESULT_BYTES_MAX).then_some(said);
        let (stopped, was_killed) = (stopped.into_inner(), was_killed.into_inner());
        let result = (result.len() <= RESULT_BYTES_MAX).then_some(result);
        CommandEnding { told, stopped, was_killed, bytes, said, last_words, is_clean, result }
    }
}

/// Reads what is written to the file of the result, a byte more than may be kept of it; the rest is
/// dropped.
async fn read_result(from: Option<impl AsyncRead + Unpin>, result: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let free = (RESULT_BYTES_MAX + 1).saturating_sub(result.len());
        result.extend_from_slice(&buffer[..length.min(free)]);
    }
}

/// Makes a scratch directory for a command that has no root directory of its own.
fn scratch(options: &ExternalOptions, name: &str) -> io::Result<Scratch> {
    Scratch::new(&options.temporary, name, options.user()).map_err(|error| {
        let folder = options.temporary.display();
        io::Error::new(error.kind(), format!("no scratch directory in {folder}: {error}"))
    })
}

/// Makes a control group for the command, where that is of use.
async fn group(
    running: &RunningLauncher,
    name: &str,
    limits: &Limits,
) -> io::Result<(Cgroup, String)> {
    if running.ready.has_namespace && !running.has_group_limits {
        // To enter a group takes milliseconds.
        return Err(io::Error::other("no controllers, and the pid namespace kills as well"));
    }
    let (name, limits) = (name.to_owned(), *limits);
    tokio::task::spawn_blocking(move || Cgroup::new(&name, &limits)).await?
}

/// Hears the helpers out, until nothing of the command is left.
async fn listen(reader: &mut ReadHalf<'_>) -> HelperMessages {
    let mut told = HelperMessages::default();
    while !told.is_over
        && let Ok(length) = reader.read_u32().await
    {
        if length > spec::MESSAGE_BYTES_MAX {
            break;
        }
        let mut text = vec![0; length as usize];
        if reader.read_exact(&mut text).await.is_err() {
            break;
        }
        match serde_json::from_slice(&text) {
            Ok(HelperMessage::Report(report)) => told.report = Some(report),
            Ok(HelperMessage::Probed) => told.is_over = true,
            Ok(HelperMessage::Refused { code, message }) => {
                told.refused = Some((code, message));
                told.is_over = true;
            }
            Ok(HelperMessage::Ended(ended)) => {
                told.ended = Some(ended);
                told.is_over = ended.is_all;
            }
            Ok(HelperMessage::Swept(count)) => told.swept = count,
            Err(error) => tracing::error!(%error, "the sandbox's helper sent something unknown"),
        }
    }
    told
}

/// Ends a command when that is asked for: kindly, then by force, then by every force.
struct Ender<'a, 'b> {
    writer: &'a mut WriteHalf<'b>,
    cgroup: Option<&'a Cgroup>,
}

impl Ender<'_, '_> {
    /// Returns when all of it was in vain.
    async fn run(
        self,
        stop: &mut Stop,
        grace: Duration,
        stopped: &OnceLock<AttemptEnd>,
        was_killed: &AtomicBool,
    ) {
        let end = stop.requested().await;
        let _ = stopped.set(end);
        // A helper that cannot be reached has ended.
        let _ = self.writer.write_all(&[spec::TERMINATE]).await;
        sleep(if end == AttemptEnd::Lost { grace.min(LOST_GRACE) } else { grace }).await;
        was_killed.store(true, Ordering::Relaxed);
        let _ = self.writer.write_all(&[spec::KILL]).await;
        sleep(KILL_TIMEOUT).await;
        tracing::warn!("the sandbox's helper does not answer");
        if let Some(cgroup) = self.cgroup {
            cgroup.kill();
        }
        // The launcher takes this for the agent's end, and cleans up alone.
        let _ = self.writer.shutdown().await;
        sleep(3 * KILL_TIMEOUT).await;
    }
}

/// Carries one stream of a command to its output.
struct StreamReader {
    stream: Stream,
    bytes: u64,
    /// The beginning, a byte longer than a result may be.
    first: Vec<u8>,
    last: VecDeque<u8>,
}

impl StreamReader {
    fn new(stream: Stream) -> Self {
        StreamReader { stream, bytes: 0, first: Vec::new(), last: VecDeque::new() }
    }

    async fn run(&mut self, from: Option<impl AsyncRead + Unpin>, output: &Masked) {
        let Some(mut from) = from else { return };
        let mut buffer = vec![0; 64 << 10];
        // A pipe that cannot be read any more has ended.
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            self.bytes += length as u64;
            self.keep(&output.write(self.stream, &buffer[..length]));
        }
        self.keep(&output.end(self.stream));
    }

    /// Keeps the beginning and the end, as far as they may be shown.
    fn keep(&mut self, bytes: &[u8]) {
        let free = (RESULT_BYTES_MAX + 1).saturating_sub(self.first.len());
        self.first.extend(&bytes[..bytes.len().min(free)]);
        self.last.extend(&bytes[bytes.len().saturating_sub(LAST_WORDS)..]);
        let excess = self.last.len().saturating_sub(LAST_WORDS);
        self.last.drain(..excess);
    }

    /// The last line that is not blank.
    fn last_line(&self) -> Vec<u8> {
        let bytes: Vec<u8> = self.last.iter().copied().collect();
        let lines = bytes.split(|byte| matches!(byte, b'\n' | b'\r'));
        let mut lines = lines.map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        lines.next_back().unwrap_or_default().to_vec()
    }
}
