//! ARTIFACT: runs a function or a program of an artifact, in the sandbox of commands.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::action::{ArtifactAction, Assignment};
use domain::artifact::Entrypoint;
use domain::run::{AttemptEnd, AttemptResult, ErrorCode};
use domain::{exact_number, raw_json};
use serde_json::{Map, Value, json};

use super::Failure;
use super::external::{self, ExternalOptions, Launcher, launch::Launched};
use crate::Attempt;
use crate::artifact::ArtifactOptions;
use crate::artifact::cache::{ArtifactCache, CachedArtifact, fetch_failure};
use crate::context::FACTS;
use crate::output::printable;
use crate::sandbox::spec::{self, ArtifactMount};

/// The program that calls the function of a module.
const BOOTSTRAP: &str = include_str!("artifact/bootstrap.py");

/// What runs artifacts on this agent.
pub(crate) struct ArtifactRunner {
    options: ArtifactOptions,
    external: ExternalOptions,
    launcher: Launcher,
    /// Made with the first run.
    cache: tokio::sync::OnceCell<ArtifactCache>,
}

impl ArtifactRunner {
    /// A runner whose sandbox is that of external commands, without the commands that those may
    /// start.
    pub fn new(options: ArtifactOptions, external: &ExternalOptions) -> Self {
        let artifacts = options.enabled.then(|| unpacked_folder(&options));
        let external = ExternalOptions {
            enabled: options.enabled,
            allow: Vec::new(),
            working_directory: None,
            artifacts,
            ..external.clone()
        };
        ArtifactRunner {
            options,
            external,
            launcher: Launcher::default(),
            cache: Default::default(),
        }
    }

    /// Whether this agent's policy permits an action.
    pub fn permitted(&self, action: &ArtifactAction) -> Result<Entrypoint, Failure> {
        if !self.options.enabled {
            let message = "artifacts are not run on this node (artifacts.enabled = false)";
            return Err(Failure::refused("ARTIFACTS_DISABLED", message));
        }
        if let Some(place) = action.arguments.iter().position(|a| a.contains(crate::secrets::OPEN))
        {
            let message = format!(
                "arguments: number {} contains a secret, and every process of the machine can read arguments: pass it in environment",
                place + 1
            );
            return Err(Failure::refused("SECRET_IN_ARGUMENTS", message));
        }
        let entrypoint = action.entrypoint.parse::<Entrypoint>();
        entrypoint.map_err(|error| Failure::refused("INVALID_ENTRYPOINT", error.to_string()))
    }

    async fn cache(&self) -> Result<&ArtifactCache, Failure> {
        let open = || async {
            let (folder, most) = (self.options.folder.clone(), self.options.cache_bytes_max);
            let (helper, level) = (self.external.helper.clone(), self.external.sandbox);
            let open = move || ArtifactCache::open(folder, most, helper, level);
            tokio::task::spawn_blocking(open).await.map_err(std::io::Error::other).flatten()
        };
        self.cache.get_or_try_init(open).await.map_err(|error| {
            let folder = self.options.folder.display();
            Failure::other("ARTIFACT_UNPACK_FAILED", format!("the cache {folder}: {error}"))
        })
    }

    /// Carries the action out.
    pub async fn run(&self, action: &ArtifactAction, mut attempt: Attempt<'_>) -> AttemptResult {
        let prepared = tokio::select! {
            biased;
            end = attempt.stop.requested() => {
                return AttemptResult {
                    end,
                    message: "stopped before the artifact was started".to_owned(),
                    ..AttemptResult::completed()
                };
            }
            prepared = self.prepare(action, attempt.assignment, attempt.secrets) => prepared,
        };
        // The artifact stays in the cache while it runs.
        let (command, _artifact) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return failure.into(),
        };
        let name = format!("{}-{}", attempt.assignment.run, attempt.assignment.attempt);
        let launched = Launched::new(&self.launcher, &self.external, Some(command), &name).await;
        let launched = match launched {
            Ok(launched) => launched,
            Err(error) => {
                let message = format!("the sandbox's helper: {error}");
                return Failure::other("START_FAILED", message).into();
            }
        };
        let grace = Duration::try_from(attempt.assignment.grace_period).unwrap_or_default();
        let mut ending = launched.finish(&attempt.output, &mut attempt.stop, grace).await;
        let written = ending.result.take();
        let shown = format!("{} of {}", action.entrypoint, action.artifact_id);
        let result = external::result(&self.external, &shown, ending);
        with_result(result, written)
    }

    /// The command of a run, and its artifact.
    async fn prepare(
        &self,
        action: &ArtifactAction,
        assignment: &Assignment,
        secrets: &dyn crate::secrets::Secrets,
    ) -> Result<(spec::Command, CachedArtifact), Failure> {
        let entrypoint = self.permitted(action)?;
        let mut environment = self.external.environment.clone();
        for (name, value) in &action.environment {
            let value = crate::secrets::resolve(value, assignment, secrets).await;
            let value =
                value.map_err(|error| Failure::secret(&format!("environment: {name}"), &error))?;
            environment.insert(name.clone(), value.replace('\0', "\u{fffd}"));
        }
        let source = self.options.source.as_ref();
        let digest = match action.pinned {
            Some(pinned) => pinned.digest,
            None => source.newest(assignment).await.map_err(fetch_failure)?,
        };
        let artifact = self.cache().await?.get(source, assignment, digest).await?;
        let context = context(assignment, action, &digest.to_string());
        let context = exact_number::to_text(&context);
        let mount = ArtifactMount { folder: artifact.folder.clone(), context };
        add_facts(&mut environment, assignment);
        let (path, name, arguments) = match entrypoint {
            Entrypoint::Python { module, function } => {
                let python = real(&self.options.python)?;
                let arguments = [
                    "-I",
                    "-B",
                    "-c",
                    BOOTSTRAP,
                    spec::FOLDER_MARK,
                    &module,
                    &function,
                    spec::CONTEXT_MARK,
                    spec::RESULT_MARK,
                ];
                (python, "python3".to_owned(), arguments.map(str::to_owned).to_vec())
            }
            Entrypoint::Executable(file) => {
                let path = artifact.folder.join(&file);
                if !path.is_file() {
                    let message = format!("entrypoint: the artifact has no file {file:?}");
                    return Err(Failure::refused("ENTRYPOINT_NOT_FOUND", message));
                }
                // A version never changes, so another attempt would fail as well.
                if !is_executable(&path) {
                    let hint = "make it executable (chmod +x) and push the artifact again";
                    let message = format!("entrypoint: file {file:?} is not executable; {hint}");
                    return Err(Failure::refused("ENTRYPOINT_NOT_EXECUTABLE", message));
                }
                (path, file, action.arguments.clone())
            }
        };
        let parameters: Value = assignment.parameters.clone().into_iter().collect();
        let stdin = exact_number::to_text(&parameters);
        let artifact_mount = Some(mount);
        let command =
            spec::Command { path, name, arguments, environment, stdin, artifact: artifact_mount };
        Ok((command, artifact))
    }
}

/// The folder that commands of artifacts have a part of.
fn unpacked_folder(options: &ArtifactOptions) -> PathBuf {
    let folder = std::path::absolute(&options.folder).unwrap_or_else(|_| options.folder.clone());
    folder.join("unpacked")
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

fn real(python: &Path) -> Result<PathBuf, Failure> {
    python.canonicalize().map_err(|error| {
        // The path is for the administrator of the node; tenants read the message.
        tracing::error!(path = %python.display(), %error, "the Python of artifacts was not found");
        let message = "the Python of this node was not found (artifacts.python)";
        Failure::other("INTERPRETER_NOT_FOUND", message)
    })
}

fn add_facts(environment: &mut BTreeMap<String, String>, assignment: &Assignment) {
    for fact in FACTS {
        let value = (fact.value)(assignment).replace('\0', "\u{fffd}");
        environment.insert(fact.variable.to_owned(), value);
    }
    environment.insert("TRACEPARENT".to_owned(), crate::context::traceparent(assignment));
}

/// What a program may know about its run, as one document.
fn context(assignment: &Assignment, action: &ArtifactAction, digest: &str) -> Value {
    let mut context = Map::new();
    for fact in FACTS {
        let name = fact.variable.trim_start_matches("PUNCTUAL_").to_ascii_lowercase();
        context.insert(name, Value::String((fact.value)(assignment)));
    }
    context.insert("attempt".to_owned(), json!(assignment.attempt));
    context.insert("fence".to_owned(), json!(assignment.fence));
    context.insert("artifact".to_owned(), json!(action.artifact_id));
    context.insert("digest".to_owned(), json!(digest));
    context.insert("parameters".to_owned(), json!(assignment.parameters));
    Value::Object(context)
}

/// The result of an attempt with what its program wrote to the file of the result. That comes before
/// what it printed.
fn with_result(mut result: AttemptResult, written: Option<Vec<u8>>) -> AttemptResult {
    let Some(mut written) = written else {
        if result.error.is_none() && result.message.is_empty() {
            let limit = super::RESULT_BYTES_MAX;
            let message = format!("the result is longer than {limit} bytes");
            return AttemptResult {
                result: None,
                ..failed_with(result, "RESULT_TOO_LARGE", message)
            };
        }
        return result;
    };
    // A zero byte is in no JSON text: what follows it is the report of the bootstrap.
    if let Some(at) = written.iter().rposition(|byte| *byte == 0) {
        let report = serde_json::from_slice::<BootstrapReport>(&written[at + 1..]);
        written.truncate(at);
        if let Ok(report) = report
            && result.end == AttemptEnd::Failed
        {
            result.message = printable(report.message.as_bytes());
            if report.is_entrypoint_missing {
                // A version never changes, so another attempt would fail as well.
                result.error = Some(ErrorCode::Refused("ENTRYPOINT_NOT_FOUND".to_owned()));
            }
        }
    }
    let text = String::from_utf8_lossy(&written);
    let text = text.trim();
    if text.is_empty() {
        return result;
    }
    // Clients read results as values, so nesting, numbers and characters must be within their limits.
    match raw_json::check(text) {
        Ok(()) => {
            result.result = Some(text.to_owned());
            result
        }
        Err(error) if result.error.is_none() => {
            let message = format!("the result is not JSON: {error}");
            AttemptResult { result: None, ..failed_with(result, "RESULT_INVALID", message) }
        }
        Err(_) => result,
    }
}

/// What the bootstrap reports about a function that failed. A function can write it as well, and
/// harms itself only.
#[derive(serde::Deserialize)]
struct BootstrapReport {
    message: String,
    #[serde(default)]
    is_entrypoint_missing: bool,
}

fn failed_with(result: AttemptResult, code: &str, message: String) -> AttemptResult {
    let failed = AttemptResult::failed(ErrorCode::Other(code.to_owned()), message);
    AttemptResult { details: result.details, ..failed }
}

/// Starts the launcher, and logs what the sandbox will lack.
pub(crate) async fn warm_up(runner: &ArtifactRunner) {
    if runner.options.enabled {
        // Also makes the folder that the sandbox mounts.
        if let Err(failure) = runner.cache().await {
            tracing::error!(error = failure.message, "artifacts cannot be run");
        }
        external::warm_up(&runner.external, &runner.launcher).await;
    }
}
