//! The agent's side of the launcher: the process that starts commands.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ExternalOptions;
use crate::sandbox::layout::{ConfiguredPaths, Stamp};
use crate::sandbox::spec::{self, REQUEST, REQUEST_DESCRIPTORS, Ready};
use crate::sandbox::{MARK, cgroup};

/// How long a launcher may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// How many init processes wait for a command at most.
const IDLE_MAX: usize = 16;

/// How many commands an init process starts at most.
const USES_MAX: u32 = 1000;

/// How often the files that commands have copies of are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The launcher of an agent. It is started with the first command, and again when what commands may
/// see of the machine has changed, or when it was killed.
#[derive(Default)]
pub(crate) struct Launcher(tokio::sync::Mutex<Option<Current>>);

/// The current launcher, and the layout that the root directory of its commands was built from.
struct Current {
    running: Arc<RunningLauncher>,
    mounted: Vec<Stamp>,
    copied: Vec<Stamp>,
    looked: Instant,
}

/// A launcher that takes requests. Dropping it lets the commands that it has started end, and then
/// the launcher.
pub(super) struct RunningLauncher {
    socket: UnixStream,
    pub ready: Ready,
    /// Whether a control group would limit anything.
    pub has_group_limits: bool,
    /// Init processes that wait for a command.
    idle: Mutex<Vec<Init>>,
}

/// An init process: the parent of a command, connected to the agent.
pub(super) struct Init {
    pub socket: UnixStream,
    uses: u32,
}

/// The agent's ends of a command.
pub(super) struct Streams {
    pub init: Init,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
    pub result: Option<pipe::Receiver>,
}

impl Launcher {
    /// The launcher for these options.
    pub(super) async fn running(
        &self,
        options: &ExternalOptions,
    ) -> io::Result<Arc<RunningLauncher>> {
        let wanted = options.wanted();
        let mounted = wanted.mounted();
        let mut current = self.0.lock().await;
        if let Some(current) = &mut *current
            && current.mounted == mounted
            && current.is_up_to_date(&wanted)
        {
            return Ok(current.running.clone());
        }
        let (copied, looked) = (wanted.copied(), Instant::now());
        let running = Arc::new(RunningLauncher::new(options).await?);
        *current = Some(Current { running: running.clone(), mounted, copied, looked });
        Ok(running)
    }

    /// Gives up a launcher that does not answer.
    pub(super) async fn forget(&self, broken: &Arc<RunningLauncher>) {
        let mut current = self.0.lock().await;
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(&current.running, broken)) {
            *current = None;
        }
    }
}

impl Current {
    /// Whether the copied files are unchanged, as far as that was checked lately.
    fn is_up_to_date(&mut self, wanted: &ConfiguredPaths<'_>) -> bool {
        if self.looked.elapsed() < LOOK_EVERY {
            return true;
        }
        self.looked = Instant::now();
        self.copied == wanted.copied()
    }
}

impl RunningLauncher {
    async fn new(options: &ExternalOptions) -> io::Result<Self> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut socket = UnixStream::from_std(ours)?;
        spawn(options, theirs).await?;
        let setup = spec::encode(&options.setup())?;
        let ready = async {
            socket.write_all(&setup).await?;
            let mut answer =
                vec![0; socket.read_u32().await?.min(spec::MESSAGE_BYTES_MAX) as usize];
            socket.read_exact(&mut answer).await?;
            Ok(serde_json::from_slice(&answer)?)
        };
        let ready = tokio::time::timeout(READY_TIMEOUT, ready).await;
        let ready: io::Result<Ready> =
            ready.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let ready = ready.map_err(|error| {
            let problem =
                format!("launcher did not become ready: {error}; the server's log has why");
            io::Error::new(error.kind(), problem)
        })?;
        let (has_group_limits, idle) = (cgroup::has_limits(), Mutex::default());
        Ok(RunningLauncher { socket, ready, has_group_limits, idle })
    }

    /// Starts a command: an init process gets its description, and its ends of the command's pipes.
    pub(super) async fn start(
        &self,
        spec: &[u8],
        has_result: bool,
        group: Option<OwnedFd>,
    ) -> io::Result<Streams> {
        let (stdout, their_stdout) = io::pipe()?;
        let (stderr, their_stderr) = io::pipe()?;
        let (result, their_result) = match has_result {
            true => io::pipe().map(|(ours, theirs)| (Some(ours), Some(theirs)))?,
            false => (None, None),
        };
        let mut descriptors = vec![their_stdout.as_fd(), their_stderr.as_fd()];
        descriptors.extend(their_result.as_ref().map(AsFd::as_fd));
        descriptors.extend(group.as_ref().map(AsFd::as_fd));
        let mut init = None;
        // One that has died meanwhile is not the last one that there is.
        while let (None, Some(mut idle)) = (&init, self.take()) {
            init = idle.send(spec, &descriptors).await.is_ok().then_some(idle);
        }
        let init = match init {
            Some(init) => init,
            None => {
                let mut init = self.request().await?;
                init.send(spec, &descriptors).await?;
                init
            }
        };
        Ok(Streams {
            init,
            stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
            stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
            result: result.map(|it| pipe::Receiver::from_owned_fd(it.into())).transpose()?,
        })
    }

    /// Asks the launcher for an init process.
    async fn request(&self) -> io::Result<Init> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        send(&self.socket, &[REQUEST], &[theirs.as_fd()]).await?;
        Ok(Init { socket: UnixStream::from_std(ours)?, uses: 0 })
    }

    fn take(&self) -> Option<Init> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps an init process for another command. It must have no message left to send.
    pub(super) fn release(&self, init: Init) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ready.is_reusable && init.uses < USES_MAX && idle.len() < IDLE_MAX {
            idle.push(init);
        }
    }
}

impl Init {
    async fn send(&mut self, spec: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.uses += 1;
        let sent = send(&self.socket, spec, descriptors).await?;
        self.socket.write_all(&spec[sent..]).await
    }
}

/// Sends the beginning of a message. Its first byte carries the descriptors.
async fn send(
    socket: &UnixStream,
    message: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let send = || {
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REQUEST_DESCRIPTORS))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(sendmsg(socket, &[IoSlice::new(message)], &mut rights, flags)?)
    };
    socket.async_io(Interest::WRITABLE, send).await
}

/// Starts the process. The kernel kills it when the thread that started it ends, so a thread of its
/// own waits for its end.
async fn spawn(options: &ExternalOptions, socket: StdStream) -> io::Result<()> {
    let helper = options.helper.clone();
    let (tell, told) = oneshot::channel();
    #[expect(clippy::disallowed_methods, reason = "the launcher starts commands")]
    let body = move || {
        let child = Command::new(helper)
            .arg(MARK)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(socket)))
            .stdout(Stdio::null())
            .spawn();
        let (mut child, started) = match child {
            Ok(child) => (Some(child), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let _ = tell.send(started);
        if let Some(Ok(status)) = child.as_mut().map(std::process::Child::wait)
            && !status.success()
        {
            tracing::warn!(%status, "launcher of external commands ended");
        }
    };
    std::thread::Builder::new().name("launcher".into()).spawn(body)?;
    told.await.map_err(io::Error::other)?
}
