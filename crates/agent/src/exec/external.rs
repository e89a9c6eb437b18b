//! EXTERNAL: starts a command of this machine, in a sandbox.

pub(crate) mod launch;
mod launcher;
mod policy;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::action::{Assignment, ExternalAction};
use domain::run::{AttemptEnd, AttemptResult, ErrorCode};
use domain::{exact_number, raw_json};
use serde_json::{Value, json};

use super::Failure;
use crate::Attempt;
use crate::context::FACTS;
use crate::output::printable;
use crate::sandbox::layout::ConfiguredPaths;
use crate::sandbox::spec::{self, Limits, Setup, User};
use crate::sandbox::{Level, Report};
use crate::secrets::Secrets;
use launch::{CommandEnding, Launched};
pub(crate) use launcher::Launcher;

/// Whether commands have a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// None, not even to the machine itself.
    #[default]
    Deny,
    /// The machine's.
    Allow,
}

/// Which commands of this machine may be started, and how. Nothing may by default.
#[derive(Clone, Debug)]
pub struct ExternalOptions {
    /// Whether there are external commands at all.
    pub enabled: bool,
    /// The commands that may be started: files, or folders with everything in them.
    pub allow: Vec<PathBuf>,
    /// A folder that every command runs in and may write. The scratch directory of the run when
    /// absent.
    pub working_directory: Option<PathBuf>,
    /// The variables that every command gets.
    pub environment: BTreeMap<String, String>,
    /// The variables that an action may set: names, or beginnings of names followed by `*`.
    pub variables: Vec<String>,
    /// How much of the machine a command may use. Wall time is the job's.
    pub limits: Limits,
    /// Whether commands have a network.
    pub network: Network,
    /// How much of the sandbox there must be.
    pub sandbox: Level,
    /// The user that commands run as. The agent's user when absent, or `nobody` if that is root.
    pub user: Option<User>,
    /// Paths that commands may read, besides the folders of the system and the allowed commands.
    pub readable: Vec<PathBuf>,
    /// Paths that commands may write, besides their scratch directory and the working directory.
    pub writable: Vec<PathBuf>,
    /// Paths that commands may never see: the data folder, the configuration.
    pub protected: Vec<PathBuf>,
    /// The folder of unpacked artifacts, of which a command that runs one sees its own.
    pub artifacts: Option<PathBuf>,
    /// The binary that calls [`crate::sandbox::helper_main`] first: this one.
    pub helper: PathBuf,
    /// Where the scratch directories of commands are that have no root directory of their own.
    pub temporary: PathBuf,
}

impl Default for ExternalOptions {
    fn default() -> Self {
        let environment = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8")];
        ExternalOptions {
            enabled: false,
            allow: Vec::new(),
            working_directory: None,
            environment: environment.map(|(name, value)| (name.into(), value.into())).into(),
            variables: Vec::new(),
            limits: Limits::default(),
            network: Network::default(),
            sandbox: Level::default(),
            user: None,
            readable: Vec::new(),
            writable: Vec::new(),
            protected: Vec::new(),
            artifacts: None,
            helper: "/proc/self/exe".into(),
            temporary: "/tmp".into(),
        }
    }
}

/// Why the options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ExternalProblem {
    /// The option.
    pub field: &'static str,
    /// The problem, and an allowed value.
    pub problem: String,
}

/// The user that commands run as when the agent is root and the settings name no user.
const NOBODY: User = User { uid: 65534, gid: 65534 };

/// The grace period of a command whose node has lost its claim to the run: its result is not used.
const LOST_GRACE: Duration = Duration::from_secs(1);

impl ExternalOptions {
    /// Whether the options make sense on this machine. Options that are not switched on do.
    pub fn check(&self) -> Result<(), ExternalProblem> {
        let wrong = |field, problem: String| Err(ExternalProblem { field, problem });
        if !self.enabled {
            return Ok(());
        }
        let lists = [
            ("allow", &self.allow),
            ("readable", &self.readable),
            ("writable", &self.writable),
            ("protected", &self.protected),
        ];
        for (field, list) in lists {
            if let Some(path) = list.iter().find(|path| !path.is_absolute()) {
                return wrong(field, format!("{path:?} must be an absolute path"));
            }
        }
        if self.allow.is_empty() {
            return wrong("allow", "is empty: name the commands, or folders of them".into());
        }
        let opened = self.readable.iter().map(|path| ("readable", path));
        let opened = opened.chain(self.writable.iter().map(|path| ("writable", path)));
        for (field, path) in opened.chain(self.allow.iter().map(|path| ("allow", path))) {
            if path.parent().is_none() {
                return wrong(field, "must not be /, which has everything in it".into());
            }
        }
        if let Some(work) = &self.working_directory {
            self.check_working_directory(work)?;
        }
        for name in self.environment.keys().chain(&self.variables) {
            if name.is_empty() || name.contains(['=', '\0']) {
                return wrong("environment", format!("{name:?} is not a variable name"));
            }
        }
        Ok(())
    }

    fn check_working_directory(&self, path: &Path) -> Result<(), ExternalProblem> {
        let wrong = |problem| Err(ExternalProblem { field: "working_directory", problem });
        let work = match path.canonicalize() {
            Ok(work) if work.is_dir() && path.is_absolute() => work,
            _ => {
                return wrong(format!(
                    "{path:?} must be the absolute path of a folder that exists"
                ));
            }
        };
        if work.parent().is_none() {
            return wrong("must be a folder for commands, not /".into());
        }
        for path in &self.protected {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            if work.starts_with(&path) {
                return wrong(format!("must not be inside {path:?}, which commands may not see"));
            }
        }
        Ok(())
    }

    /// The paths that commands may see.
    fn wanted(&self) -> ConfiguredPaths<'_> {
        let writable = self.writable.iter().chain(&self.working_directory);
        ConfiguredPaths {
            readable: self.allow.iter().chain(&self.readable).map(PathBuf::as_path).collect(),
            writable: writable.map(PathBuf::as_path).collect(),
            protected: &self.protected,
            artifacts: self.artifacts.as_deref(),
            has_network: self.network == Network::Allow,
        }
    }

    /// User of commands, if it is not the agent's user.
    fn user(&self) -> Option<User> {
        let is_root = nix::unistd::geteuid().is_root();
        self.user.or((is_root && self.sandbox != Level::Off).then_some(NOBODY))
    }

    /// The part of the sandbox that is the same for all commands.
    fn setup(&self) -> Setup {
        let work = self.working_directory.as_ref();
        Setup {
            sandbox: self.sandbox,
            deny_network: self.network == Network::Deny && self.sandbox != Level::Off,
            working_directory: work
                .map(|work| work.canonicalize().unwrap_or_else(|_| work.clone())),
            layout: self.wanted().layout(),
            limits: self.limits,
            user: self.user(),
        }
    }

    /// Deletes what agents left behind that were killed.
    pub(crate) fn sweep(&self) {
        crate::sandbox::cgroup::sweep();
        crate::sandbox::scratch::sweep(&self.temporary, self.user());
    }

    /// Reports the sandbox features that would be in force on this machine, before the first
    /// command.
    pub async fn probe(&self) -> Result<Report, String> {
        self.probe_by(&Launcher::default()).await
    }

    async fn probe_by(&self, launcher: &Launcher) -> Result<Report, String> {
        let launched = Launched::new(launcher, self, None, "probe").await;
        let told = launched.map_err(|error| error.to_string())?.answer().await;
        match (told.report, told.refused) {
            // A refusal because of a missing feature is in the report.
            (Some(report), _) => Ok(report),
            (None, Some((_, message))) => Err(message),
            (None, None) => Err("the sandbox's helper ended without a word".to_owned()),
        }
    }
}

/// Starts the launcher, and logs the features that the sandbox of commands will lack.
pub(crate) async fn warm_up(options: &ExternalOptions, launcher: &Launcher) {
    match options.probe_by(launcher).await {
        Err(error) => tracing::error!(error, "external commands cannot be started"),
        Ok(report) => match (report.lacks(), options.sandbox) {
            (None, _) | (_, Level::Off) => {}
            (Some(lacks), Level::Required) => {
                tracing::error!(lacks, "external commands will be refused: sandbox is required");
            }
            (Some(lacks), Level::BestEffort) => {
                tracing::warn!(lacks, "external commands will run in an incomplete sandbox");
            }
        },
    }
}

/// Carries the action out.
pub(crate) async fn run(
    options: &ExternalOptions,
    launcher: &Launcher,
    action: &ExternalAction,
    mut attempt: Attempt<'_>,
) -> AttemptResult {
    let command = match prepare(options, action, attempt.assignment, attempt.secrets).await {
        Ok(command) => command,
        Err(failure) => return failure.into(),
    };
    // An attempt that was cancelled before its start does not start.
    tokio::select! {
        biased;
        end = attempt.stop.requested() => {
            return AttemptResult {
                end,
                message: "stopped before the command was started".to_owned(),
                ..AttemptResult::completed()
            };
        }
        () = std::future::ready(()) => {}
    }
    let path = command.path.display().to_string();
    let name = format!("{}-{}", attempt.assignment.run, attempt.assignment.attempt);
    let launched = match Launched::new(launcher, options, Some(command), &name).await {
        Ok(launched) => launched,
        Err(error) => {
            let message = format!("the sandbox's helper: {error}");
            return Failure::other("START_FAILED", message).into();
        }
    };
    let grace = Duration::try_from(attempt.assignment.grace_period).unwrap_or_default();
    let ending = launched.finish(&attempt.output, &mut attempt.stop, grace).await;
    result(options, &path, ending)
}

/// The file of a command and its name, if policy permits the action.
pub(crate) fn permitted(
    options: &ExternalOptions,
    action: &ExternalAction,
) -> Result<(PathBuf, String), Failure> {
    if !options.enabled {
        let message = "external commands are disabled on this node (external.enabled = false)";
        return Err(Failure::refused("EXTERNAL_DISABLED", message));
    }
    let command = policy::command(&options.allow, &action.command)?;
    if let Some(argument) = action.arguments.iter().position(|a| a.contains(crate::secrets::OPEN)) {
        let message = format!(
            "arguments: number {} contains a secret, and every process of the machine can read arguments: pass it in environment",
            argument + 1
        );
        return Err(Failure::refused("SECRET_IN_ARGUMENTS", message));
    }
    for name in action.environment.keys() {
        policy::variable(&options.variables, name)?;
    }
    Ok(command)
}

/// The command as it will be started, or why it will not.
async fn prepare(
    options: &ExternalOptions,
    action: &ExternalAction,
    assignment: &Assignment,
    secrets: &dyn Secrets,
) -> Result<spec::Command, Failure> {
    let (path, name) = permitted(options, action)?;
    let mut environment = options.environment.clone();
    for (name, value) in &action.environment {
        let value = crate::secrets::resolve(value, assignment, secrets).await;
        let value =
            value.map_err(|error| Failure::secret(&format!("environment: {name}"), &error))?;
        if value.contains('\0') {
            let message = format!("environment: the value of {name} holds a zero byte");
            return Err(Failure::refused("VARIABLE_NOT_ALLOWED", message));
        }
        environment.insert(name.clone(), value.into_owned());
    }
    for fact in FACTS {
        // Values from the job's definition may contain any character.
        let value = (fact.value)(assignment).replace('\0', "\u{fffd}");
        environment.insert(fact.variable.to_owned(), value);
    }
    environment.insert("TRACEPARENT".to_owned(), crate::context::traceparent(assignment));
    let parameters: Value = assignment.parameters.clone().into_iter().collect();
    let stdin = exact_number::to_text(&parameters);
    let arguments = action.arguments.clone();
    Ok(spec::Command { path, name, arguments, environment, stdin, artifact: None })
}

/// The result of the attempt.
pub(crate) fn result(
    options: &ExternalOptions,
    path: &str,
    ending: CommandEnding,
) -> AttemptResult {
    let CommandEnding { told, stopped, was_killed, bytes, said, last_words, is_clean, result: _ } =
        ending;
    let mut details = json!({
        "command": path,
        "limits": options.limits,
        "sandbox": { "level": options.sandbox, "report": told.report },
        "output": { "stdout_bytes": bytes[0], "stderr_bytes": bytes[1] },
    });
    let mut how = "the command was lost".to_owned();
    let mut error = Some(ErrorCode::Other("COMMAND_LOST".to_owned()));
    if let Some(ended) = told.ended {
        details["usage"] = json!({
            "user_ms": ended.user_ms,
            "system_ms": ended.system_ms,
            "peak_memory_bytes": ended.peak_memory_bytes,
        });
        details["left_behind"] = json!(ended.left_behind + told.swept);
        (how, error) = match (ended.code, ended.signal) {
            (Some(0), _) => ("the command ended well".to_owned(), None),
            (Some(code), _) => {
                details["exit_code"] = json!(code);
                (format!("the command ended with code {code}"), Some(ErrorCode::Exit(code)))
            }
            (None, Some(signal)) => {
                details["signal"] = json!(signal);
                let name = nix::sys::signal::Signal::try_from(signal);
                let name = name.map_or_else(|_| signal.to_string(), |name| name.to_string());
                (format!("the command was ended by {name}"), Some(ErrorCode::Signal(signal)))
            }
            (None, None) => (how, error),
        };
    } else if let Some((code, message)) = told.refused {
        how = message;
        error = Some(match code.as_str() {
            "SANDBOX_UNAVAILABLE" | "COMMAND_NOT_ALLOWED" => ErrorCode::Refused(code),
            _ => ErrorCode::Other(code),
        });
    }
    if !is_clean {
        details["survivors"] = json!(true);
    }
    if error.is_some() && !last_words.is_empty() {
        how = format!("{how}: {}", printable(&last_words));
    }
    let (end, message) = match stopped {
        Some(end) => {
            let why = match end {
                AttemptEnd::Cancelled => "cancelled",
                AttemptEnd::Timeout => "took too long",
                _ => "the node has lost the run",
            };
            let force = if was_killed { " (killed: it did not end in time)" } else { "" };
            (end, format!("{why}{force}: {how}"))
        }
        None if error.is_none() => (AttemptEnd::Completed, String::new()),
        None => (AttemptEnd::Failed, how),
    };
    let details = Some(details.to_string());
    let result = said.as_deref().and_then(one_value).map(str::to_owned);
    AttemptResult { end, message, error, result, details, ..AttemptResult::completed() }
}

/// The text of an output that is one JSON value and nothing else.
fn one_value(said: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(said).ok()?.trim();
    raw_json::check(text).ok().map(|()| text)
}
