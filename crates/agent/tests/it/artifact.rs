//! Artifacts on an agent: what a program gets, what it cannot see, and how often it is fetched.

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent::artifact::{ArtifactChunks, ArtifactOptions, ArtifactSource, FetchError};
use agent::output::{Limits, Outputs, Stream};
use agent::{Agent, ExternalOptions, Options, StaticSecrets, Stop};
use bytes::Bytes;
use domain::action::{Action, ArtifactAction, Assignment};
use domain::artifact::{ArtifactDigest, PinnedArtifact};
use domain::run::{AttemptEnd, AttemptResult};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::sync::{Notify, watch};

use crate::external::{HELPER, assignment, open_to_all, processes};

type Fetch<'a, T> = Pin<Box<dyn Future<Output = Result<T, FetchError>> + Send + 'a>>;

/// Object storage of a test, which counts.
#[derive(Default)]
struct Shelf {
    objects: Mutex<BTreeMap<ArtifactDigest, Vec<u8>>>,
    newest: Mutex<Option<ArtifactDigest>>,
    opened: AtomicUsize,
    /// What fetches wait for, if anything.
    gate: Mutex<Option<Arc<Notify>>>,
}

impl ArtifactSource for Shelf {
    fn newest<'a>(&'a self, _: &'a Assignment) -> Fetch<'a, ArtifactDigest> {
        let newest = *self.newest.lock().unwrap();
        Box::pin(async move { newest.ok_or_else(|| FetchError::Unknown("there is none".into())) })
    }

    fn open<'a>(
        &'a self,
        _: &'a Assignment,
        digest: ArtifactDigest,
    ) -> Fetch<'a, Box<dyn ArtifactChunks>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let found = self.objects.lock().unwrap().get(&digest).cloned();
        let gate = self.gate.lock().unwrap().clone();
        Box::pin(async move {
            if let Some(gate) = gate {
                gate.notified().await;
            }
            let found = found.ok_or_else(|| FetchError::Unavailable("storage is away".into()))?;
            let chunks = found.chunks(1000).map(Bytes::copy_from_slice).rev().collect();
            Ok(Box::new(Pieces(chunks)) as Box<dyn ArtifactChunks>)
        })
    }
}

struct Pieces(Vec<Bytes>);

impl ArtifactChunks for Pieces {
    fn next(&mut self) -> Fetch<'_, Option<Bytes>> {
        let next = self.0.pop();
        Box::pin(async move { Ok(next) })
    }
}

struct World {
    dir: TempDir,
    outputs: Outputs,
    shelf: Arc<Shelf>,
    cache_bytes_max: u64,
}

/// An archive of files; those whose names have no dot are programs.
fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(zstd::Encoder::new(Vec::new(), 3).unwrap());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(if name.contains('.') { 0o644 } else { 0o755 });
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        open_to_all(dir.path());
        let outputs = Outputs::new(dir.path().join("outputs"), Limits::default()).unwrap();
        World { dir, outputs, shelf: Arc::default(), cache_bytes_max: 1 << 30 }
    }

    fn put(&self, archive: Vec<u8>) -> ArtifactDigest {
        let digest = ArtifactDigest(Sha256::digest(&archive).into());
        self.shelf.objects.lock().unwrap().insert(digest, archive);
        digest
    }

    fn agent(&self) -> Arc<Agent> {
        let external = ExternalOptions {
            protected: vec![self.dir.path().to_owned()],
            helper: HELPER.into(),
            ..ExternalOptions::default()
        };
        let artifacts = ArtifactOptions {
            enabled: true,
            folder: self.dir.path().join("cache"),
            cache_bytes_max: self.cache_bytes_max,
            source: Arc::clone(&self.shelf) as _,
            ..ArtifactOptions::default()
        };
        let secrets = StaticSecrets([("TOKEN".to_owned(), "s3cr3t-value".to_owned())].into());
        let secrets = Arc::new(secrets);
        Arc::new(Agent::new(Options { external, artifacts, secrets, ..Options::default() }))
    }

    async fn run(&self, agent: &Agent, assignment: &Assignment) -> AttemptResult {
        let (_quiet, requests) = watch::channel(None);
        self.run_until(agent, assignment, Stop::new(requests)).await
    }

    async fn run_until(&self, agent: &Agent, it: &Assignment, stop: Stop) -> AttemptResult {
        let output = self.outputs.open(it.run, it.attempt);
        let result = agent.execute(it, output.clone(), stop).await;
        output.finish().await.unwrap();
        assert_eq!(processes(it.run), [""; 0], "left: {result:?}");
        result
    }

    fn said(&self, it: &Assignment) -> String {
        let slice = self.outputs.read(it.run, 1, 0, usize::MAX, Some(Stream::Stdout)).unwrap();
        String::from_utf8_lossy(&slice.bytes).into_owned()
    }

    /// The names of the folders of the cache.
    fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path().join("cache/unpacked")).unwrap();
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// A run of an entry point.
fn run_of(digest: Option<ArtifactDigest>, entrypoint: &str) -> Assignment {
    let mut it = assignment("");
    it.action = Action::Artifact(ArtifactAction {
        artifact_id: if digest.is_some() { "sync@3".into() } else { "sync@latest".into() },
        entrypoint: entrypoint.into(),
        arguments: Vec::new(),
        environment: BTreeMap::from([("API_TOKEN".into(), "${secrets.TOKEN}".into())]),
        floating: digest.is_none(),
        pinned: digest.map(|digest| PinnedArtifact { version: 3, digest }),
    });
    it
}

fn result_of(result: &AttemptResult) -> Value {
    assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
    serde_json::from_str(result.result.as_deref().expect("a result")).unwrap()
}

const MAIN: &str = r#"
import helper, json, os, sys

def run(context):
    print("hello from", helper.NAME)
    return {
        "day": context["parameters"]["day"],
        "attempt": context["attempt"],
        "artifact": context["artifact"],
        "job": os.environ["PUNCTUAL_JOB_NAME"],
        "token": len(os.environ["API_TOKEN"]),
        "files": sorted(os.listdir(os.environ["PUNCTUAL_ARTIFACT"])),
        "root": sorted(os.listdir("/")),
        "isolated": sys.flags.isolated,
    }

def no_arguments():
    return [1, 2]

async def later():
    return "later"

class Job:
    @staticmethod
    def run(context):
        raise RuntimeError("broken " + context["job_name"])

def forbidden():
    outcomes = {}
    def attempt(name, action):
        try:
            action()
            outcomes[name] = "done"
        except Exception as error:
            outcomes[name] = type(error).__name__
    folder = os.environ["PUNCTUAL_ARTIFACT"]
    attempt("write", lambda: open(folder + "/new", "w"))
    attempt("change", lambda: open(folder + "/main.py", "a"))
    attempt("chmod", lambda: os.chmod(folder + "/main.py", 0o777))
    attempt("network", lambda: __import__("socket").create_connection(("127.0.0.1", 1)))
    try:
        outcomes["seen"] = os.listdir("/.artifacts")
    except OSError:
        outcomes["seen"] = []
    return outcomes

def tells():
    raise ValueError(os.environ["API_TOKEN"])

def huge():
    return "x" * 70000
"#;

fn python() -> Vec<u8> {
    packed(&[
        ("main.py", MAIN),
        ("helper.py", "NAME = 'helper'"),
        ("imports.py", "import absent"),
        ("vendor/dep.py", "X = 1"),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_function_gets_its_context_and_returns_a_result() {
    let world = World::new();
    let agent = world.agent();
    let digest = world.put(python());
    let it = run_of(Some(digest), "main:run");
    let result = world.run(&agent, &it).await;
    let value = result_of(&result);
    assert_eq!(world.said(&it), "hello from helper\n");
    let root = value["root"].as_array().unwrap();
    for name in ["artifact", "tmp", "usr"] {
        assert!(root.contains(&json!(name)), "{root:?}");
    }
    let expected = json!({
        "day": "monday", "attempt": 1, "artifact": "sync@3", "job": "nightly", "token": 12,
        "files": ["helper.py", "imports.py", "main.py", "vendor"], "root": root, "isolated": 1,
    });
    assert_eq!(value, expected);
    let more = |entrypoint: &str| run_of(Some(digest), entrypoint);
    assert_eq!(result_of(&world.run(&agent, &more("main:no_arguments")).await), json!([1, 2]));
    assert_eq!(result_of(&world.run(&agent, &more("main:later")).await), json!("later"));
    let failed = world.run(&agent, &more("main:Job.run")).await;
    assert_eq!(failed.end, AttemptEnd::Failed);
    let (line, _) =
        MAIN.lines().enumerate().find(|(_, line)| line.contains("RuntimeError")).unwrap();
    let reason = format!("RuntimeError: broken nightly (main.py:{} in run)", line + 1);
    assert_eq!(failed.message, reason);
    assert_eq!(failed.error.unwrap().to_string(), "EXIT_1");
    let unmasked = world.run(&agent, &more("main:tells")).await;
    assert!(unmasked.message.starts_with("ValueError: *** (main.py:"), "{}", unmasked.message);
    for (entrypoint, reason) in [
        ("missing:run", "the artifact has no module 'missing'"),
        ("missing.inner:run", "the artifact has no module 'missing'"),
        ("helper:absent", "module 'helper' has no function 'absent'"),
        ("dep:X", "'X' of module 'dep' is not callable"),
    ] {
        let absent = world.run(&agent, &more(entrypoint)).await;
        assert_eq!(absent.message, format!("entrypoint: {reason}"));
        let error = absent.error.unwrap();
        assert_eq!(error.to_string(), "ENTRYPOINT_NOT_FOUND");
        assert!(error.is_refusal(), "{entrypoint}: it is not tried again");
    }
    let other = world.run(&agent, &more("imports:run")).await;
    assert!(other.message.contains("No module named 'absent'"), "{}", other.message);
    assert!(!other.error.unwrap().is_refusal(), "another node may have the module");
    let huge = world.run(&agent, &more("main:huge")).await;
    assert_eq!(huge.error.unwrap().to_string(), "RESULT_TOO_LARGE");
    assert_eq!(world.shelf.opened.load(Ordering::Relaxed), 1, "it was fetched once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_cannot_change_itself_or_see_others() {
    let world = World::new();
    let agent = world.agent();
    let other = world.put(packed(&[("run", "#!/bin/sh\n")]));
    assert_eq!(world.run(&agent, &run_of(Some(other), "run")).await.end, AttemptEnd::Completed);
    let digest = world.put(python());
    let outcomes = result_of(&world.run(&agent, &run_of(Some(digest), "main:forbidden")).await);
    for name in ["write", "change", "chmod", "network"] {
        assert_ne!(outcomes[name], "done", "{outcomes}");
    }
    assert_eq!(outcomes["seen"], json!([]), "{outcomes}");
    assert_eq!(world.cached().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_writes_its_result_to_a_file() {
    let world = World::new();
    let agent = world.agent();
    let script = "#!/bin/sh\n\
        read -r line\n\
        echo \"$1 $line $API_TOKEN\"\n\
        cat \"$PUNCTUAL_ARTIFACT/lib/data.txt\"\n\
        printf '{\"context\": %s}' \"$(cat \"$PUNCTUAL_CONTEXT\")\" > \"$PUNCTUAL_RESULT\"\n";
    let (open, close) = ("[".repeat(200), "]".repeat(200));
    let nested = format!("#!/bin/sh\necho '{open}{close}' > $PUNCTUAL_RESULT\n");
    let digest = world.put(packed(&[
        ("bin/sync", script),
        ("lib/data.txt", "data\n"),
        ("bad", "#!/bin/sh\necho not json > $PUNCTUAL_RESULT\n"),
        ("nested", &nested),
        ("surrogate", "#!/bin/sh\nprintf '\"\\\\ud800\"' > $PUNCTUAL_RESULT\n"),
        ("huge", "#!/bin/sh\nprintf 1e999 > $PUNCTUAL_RESULT\n"),
        ("fails", "#!/bin/sh\necho sorry >&2\nexit 7\n"),
        ("interpreter", "#!/no/such/interpreter\n"),
        ("plain.txt", "no program"),
    ]));
    let mut it = run_of(Some(digest), "bin/sync");
    if let Action::Artifact(action) = &mut it.action {
        action.arguments = vec!["first; $(id)".into()];
    }
    let value = result_of(&world.run(&agent, &it).await);
    assert_eq!(value["context"]["parameters"], json!({"day": "monday"}));
    assert_eq!(world.said(&it), "first; $(id) {\"day\":\"monday\"} ***\ndata\n");
    for (entrypoint, code) in [
        ("bad", "RESULT_INVALID"),
        ("nested", "RESULT_INVALID"),
        ("surrogate", "RESULT_INVALID"),
        ("huge", "RESULT_INVALID"),
        ("fails", "EXIT_7"),
        ("interpreter", "INTERPRETER_NOT_FOUND"),
        ("plain.txt", "ENTRYPOINT_NOT_EXECUTABLE"),
        ("absent", "ENTRYPOINT_NOT_FOUND"),
        ("lib", "ENTRYPOINT_NOT_FOUND"),
    ] {
        let result = world.run(&agent, &run_of(Some(digest), entrypoint)).await;
        assert_eq!(result.end, AttemptEnd::Failed, "{entrypoint}");
        let error = result.error.unwrap().to_string();
        assert!(error.to_lowercase().contains(&code.to_lowercase()), "{entrypoint}: {error}");
        let folder = world.dir.path().display().to_string();
        assert!(!result.message.contains(&folder), "a path of the node: {}", result.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_at_the_same_time_fetch_once() {
    let world = Arc::new(World::new());
    let agent = world.agent();
    let digest = world.put(packed(&[("run", "#!/bin/sh\nexit 0\n")]));
    let all = |digest| {
        let runs = (0..20).map(|_| {
            let (world, agent) = (Arc::clone(&world), Arc::clone(&agent));
            tokio::spawn(async move { world.run(&agent, &run_of(Some(digest), "run")).await })
        });
        runs.collect::<Vec<_>>()
    };
    for run in all(digest) {
        assert_eq!(run.await.unwrap().end, AttemptEnd::Completed);
    }
    assert_eq!(world.shelf.opened.load(Ordering::Relaxed), 1);
    // Another agent process has the same folder later: nothing is fetched again.
    let again = world.run(&world.agent(), &run_of(Some(digest), "run")).await;
    assert_eq!(again.end, AttemptEnd::Completed);
    assert_eq!(world.shelf.opened.load(Ordering::Relaxed), 1);
}

/// On one thread, so that every run waits for the fetch before it goes on.
#[tokio::test]
async fn runs_that_wait_for_a_fetch_share_its_failure() {
    let world = Arc::new(World::new());
    let agent = world.agent();
    let digest = world.put(packed(&[("run", "#!/bin/sh\nexit 0\n")]));
    assert_eq!(world.run(&agent, &run_of(Some(digest), "run")).await.end, AttemptEnd::Completed);
    let gate = Arc::new(Notify::new());
    *world.shelf.gate.lock().unwrap() = Some(Arc::clone(&gate));
    let opened = || world.shelf.opened.load(Ordering::Relaxed);
    let before = opened();
    let runs = (0..20).map(|_| {
        let (world, agent) = (Arc::clone(&world), Arc::clone(&agent));
        let it = run_of(Some(ArtifactDigest([7; 32])), "run");
        tokio::spawn(async move { world.run(&agent, &it).await })
    });
    let runs: Vec<_> = runs.collect();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(opened(), before + 1, "one fetches, the others wait");
    *world.shelf.gate.lock().unwrap() = None;
    gate.notify_waiters();
    for run in runs {
        let error = run.await.unwrap().error.unwrap();
        assert_eq!(error.to_string(), "ARTIFACT_UNAVAILABLE");
        assert!(!error.is_refusal(), "it is tried again");
    }
    assert_eq!(opened(), before + 1, "they share the failure");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_runs_fetch_an_artifact_once() {
    let world = Arc::new(World::new());
    let agent = world.agent();
    let digest = world.put(packed(&[("run", "#!/bin/sh\nexit 0\n")]));
    let next = Arc::new(AtomicUsize::new(0));
    let workers = (0..8).map(|_| {
        let (world, agent, next) = (Arc::clone(&world), Arc::clone(&agent), Arc::clone(&next));
        tokio::spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < 1_000 {
                let (_quiet, requests) = watch::channel(None);
                let it = run_of(Some(digest), "run");
                let output = world.outputs.open(it.run, 1);
                let result = agent.execute(&it, output, Stop::new(requests)).await;
                assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
    assert_eq!(world.shelf.opened.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_digest_and_the_corpus_of_attacks_are_never_run() {
    let world = World::new();
    let agent = world.agent();
    let wrong = ArtifactDigest([9; 32]);
    let archive = packed(&[("run", "#!/bin/sh\nexit 0\n")]);
    world.shelf.objects.lock().unwrap().insert(wrong, archive);
    let attacks = testbed::archives::attacks().into_iter();
    let attacks = attacks.map(|attack| (attack.problem, world.put(attack.archive)));
    for (problem, digest) in [("what arrived is sha256:", wrong)].into_iter().chain(attacks) {
        let result = world.run(&agent, &run_of(Some(digest), "run")).await;
        let error = result.error.unwrap();
        assert_eq!(error.to_string(), "ARTIFACT_CORRUPT", "{problem}: {}", result.message);
        assert!(result.message.contains(problem), "{problem}: {}", result.message);
        assert!(error.is_refusal(), "{problem}: it is not tried again");
    }
    assert_eq!(world.cached(), [""; 0]);
    let incoming = fs::read_dir(world.dir.path().join("cache/incoming")).unwrap();
    assert_eq!(incoming.count(), 0, "nothing is left of them");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_drops_what_was_not_used_for_longest_and_never_what_runs() {
    let mut world = World::new();
    world.cache_bytes_max = 2500;
    let world = Arc::new(world);
    let agent = world.agent();
    let body =
        |name: &str, script: &str| format!("#!/bin/sh\n{script}\n# {name} {}", "x".repeat(1000));
    let quick = |name: &str| world.put(packed(&[("run", &body(name, "exit 0"))]));
    let waits = world.put(packed(&[("run", &body("w", "echo ready; exec sleep 600"))]));
    let (stop, requests) = watch::channel(None);
    let running = run_of(Some(waits), "run");
    let task = {
        let (world, agent, it) = (Arc::clone(&world), Arc::clone(&agent), running.clone());
        tokio::spawn(async move { world.run_until(&agent, &it, Stop::new(requests)).await })
    };
    crate::external::wait_for("the program", || world.said(&running).contains("ready")).await;
    for name in ["a", "b", "c"] {
        let result = world.run(&agent, &run_of(Some(quick(name)), "run")).await;
        assert_eq!(result.end, AttemptEnd::Completed);
        assert!(world.cached().iter().any(|it| it.starts_with(&waits.to_string())));
    }
    assert_eq!(world.cached().len(), 2, "the one that runs, and the last one");
    stop.send(Some(AttemptEnd::Cancelled)).unwrap();
    let result = task.await.unwrap();
    assert_eq!(result.end, AttemptEnd::Cancelled, "{result:?}");
    let before = world.shelf.opened.load(Ordering::Relaxed);
    world.run(&agent, &run_of(Some(quick("a")), "run")).await;
    assert_eq!(world.shelf.opened.load(Ordering::Relaxed), before + 1, "it was dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_agent_left_behind_is_deleted() {
    let world = World::new();
    let cache = world.dir.path().join("cache");
    let torn = cache.join("incoming/0000.1.folder/deep");
    fs::create_dir_all(&torn).unwrap();
    fs::write(torn.join("file"), "x").unwrap();
    fs::create_dir_all(cache.join("unpacked/not-a-digest")).unwrap();
    let digest = world.put(packed(&[("run", "#!/bin/sh\n")]));
    let result = world.run(&world.agent(), &run_of(Some(digest), "run")).await;
    assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
    assert_eq!(fs::read_dir(cache.join("incoming")).unwrap().count(), 0);
    assert_eq!(world.cached().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_whose_cache_was_taken_away_is_fetched_again() {
    let world = World::new();
    let agent = world.agent();
    let digest = world.put(packed(&[("run", "#!/bin/sh\n")]));
    let cache = world.dir.path().join("cache");
    for fetches in 1..=2 {
        let result = world.run(&agent, &run_of(Some(digest), "run")).await;
        assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
        assert_eq!(world.shelf.opened.load(Ordering::Relaxed), fetches);
        fs::rename(&cache, world.dir.path().join(format!("cache-{fetches}"))).unwrap();
    }
    // A link is nothing that was unpacked, whatever it leads to.
    let unpacked = cache.join("unpacked");
    world.run(&agent, &run_of(Some(digest), "run")).await;
    let folder = fs::read_dir(&unpacked).unwrap().next().unwrap().unwrap().path();
    fs::rename(&folder, world.dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(world.dir.path().join("elsewhere"), &folder).unwrap();
    let result = world.run(&agent, &run_of(Some(digest), "run")).await;
    assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
    assert_eq!(world.shelf.opened.load(Ordering::Relaxed), 4);
    assert!(fs::symlink_metadata(&folder).unwrap().is_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_artifact_that_was_changed_is_not_run() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let mut agent = world.agent();
    let digest = world.put(packed(&[("run", "#!/bin/sh\necho good\n"), ("lib/a.txt", "x")]));
    let opened = || world.shelf.opened.load(Ordering::Relaxed);
    let check = async |agent: &Agent| {
        let it = run_of(Some(digest), "run");
        let result = world.run(agent, &it).await;
        assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
        assert_eq!(world.said(&it), "good\n");
    };
    check(&agent).await;
    let change = |what: &dyn Fn(&Path)| {
        let unpacked = world.dir.path().join("cache/unpacked");
        let folder = fs::read_dir(unpacked).unwrap().next().unwrap().unwrap().path();
        for path in [&folder, &folder.join("run"), &folder.join("lib")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        what(&folder);
    };
    let tampered = |folder: &Path| fs::write(folder.join("run"), "#!/bin/sh\necho evil\n").unwrap();
    let added = |folder: &Path| fs::write(folder.join("lib/b.txt"), "x").unwrap();
    for (fetches, what) in [(2, &tampered as &dyn Fn(&Path)), (3, &added)] {
        change(what);
        check(&agent).await;
        assert_eq!(opened(), fetches, "it was fetched again");
    }
    // The same while the agent was not running.
    change(&tampered);
    agent = world.agent();
    check(&agent).await;
    assert_eq!(opened(), 4);
    assert_eq!(world.cached().len(), 1);
    check(&world.agent()).await;
    assert_eq!(opened(), 4, "what was not changed is not fetched again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_artifact_that_cannot_be_read_for_a_moment_stays_in_the_cache() {
    let world = World::new();
    let agent = world.agent();
    let digest = world.put(packed(&[("run", "#!/bin/sh\nexit 0\n")]));
    let it = run_of(Some(digest), "run");
    assert_eq!(world.run(&agent, &it).await.end, AttemptEnd::Completed);
    // A file in the place of a folder above it: the error is not that a file is missing.
    let (unpacked, aside) =
        (world.dir.path().join("cache/unpacked"), world.dir.path().join("aside"));
    fs::rename(&unpacked, &aside).unwrap();
    fs::write(&unpacked, "").unwrap();
    let result = world.run(&agent, &run_of(Some(digest), "run")).await;
    assert_eq!(result.end, AttemptEnd::Failed, "{result:?}");
    assert!(format!("{result:?}").contains("cannot check the cached artifact"), "{result:?}");
    fs::remove_file(&unpacked).unwrap();
    fs::rename(&aside, &unpacked).unwrap();
    let result = world.run(&agent, &run_of(Some(digest), "run")).await;
    assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
    assert_eq!(world.shelf.opened.load(Ordering::Relaxed), 1, "it is not fetched again");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_fetch_an_artifact_once_each() {
    let (one, mut two) = (World::new(), World::new());
    two.shelf = Arc::clone(&one.shelf);
    let digest = one.put(packed(&[("run", "#!/bin/sh\nexit 0\n")]));
    let agents = [one.agent(), two.agent()];
    let run = async |world: &World, agent: &Agent| {
        for _ in 0..5 {
            let result = world.run(agent, &run_of(Some(digest), "run")).await;
            assert_eq!(result.end, AttemptEnd::Completed, "{result:?}");
        }
    };
    tokio::join!(run(&one, &agents[0]), run(&two, &agents[1]));
    assert_eq!(one.shelf.opened.load(Ordering::Relaxed), 2, "each has a cache of its own");
    for world in [&one, &two] {
        assert_eq!(world.cached().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_floating_artifact_is_the_newest_one_and_a_disabled_agent_runs_none() {
    let world = World::new();
    let agent = world.agent();
    let unknown = world.run(&agent, &run_of(None, "run")).await;
    assert_eq!(unknown.error.unwrap().to_string(), "ARTIFACT_NOT_FOUND");
    for number in 1..=2 {
        let script = format!("#!/bin/sh\necho {number}\n");
        *world.shelf.newest.lock().unwrap() = Some(world.put(packed(&[("run", &script)])));
        let it = run_of(None, "run");
        assert_eq!(world.run(&agent, &it).await.end, AttemptEnd::Completed);
        assert_eq!(world.said(&it), format!("{number}\n"));
    }
    let result = world.run(&Agent::new(Options::default()), &run_of(None, "run")).await;
    assert_eq!(result.error.unwrap().to_string(), "ARTIFACTS_DISABLED");
    assert!(Path::new("/usr/bin/python3").exists(), "the tests need Python");
}
