//! Artifacts with real processes: pushed by the command line, run by the server and by an agent
//! elsewhere, and killed in the middle.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::agents::process::Agent;
use crate::binary::{Ended, run};
use crate::serve::process::{Server, until};

const ENABLED: (&str, &str) = ("PUNCTUAL_ARTIFACTS__ENABLED", "true");

fn start(data: &Path, more: &[&str], roles: &str) -> Server {
    let roles = ("PUNCTUAL_ENGINE__ROLES", roles);
    Server::start_with(data, more, &[ENABLED, roles, ("PUNCTUAL_ENGINE__LEASE", "8s")])
}

/// Runs the command line against a server.
fn cli(server: &Server, words: &[&str]) -> Ended {
    let url = format!("http://{}", server.address);
    let mut args = words.to_vec();
    args.extend(["--server", &url, "--token", &server.key]);
    run(args, b"")
}

fn good(server: &Server, words: &[&str]) -> String {
    let ended = cli(server, words);
    assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
    ended.stdout + &ended.stderr
}

fn code(folder: &Path, content: &str) -> String {
    let code = folder.join("code");
    fs::create_dir_all(&code).unwrap();
    fs::write(code.join("main.py"), content).unwrap();
    code.to_str().unwrap().to_owned()
}

fn trigger(server: &Server, job: &str) -> String {
    let (status, run) = server.call("POST", &format!("/v1/jobs/{job}/trigger"), None);
    assert!(status == 201 || status == 202, "{run}");
    run["execution_id"].as_str().unwrap().to_owned()
}

fn ended(server: &Server, run: &str) -> Value {
    until(|| {
        let (_, run) = server.call("GET", &format!("/v1/executions/{run}"), None);
        run.get("completed_at").is_some().then_some(run)
    })
}

/// Sends bytes of an upload.
fn put(server: &Server, path: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        server.key,
        bytes.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_artifact_is_pushed_and_run_here_and_by_an_agent_elsewhere() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let server = start(&folder.path().join("data"), &[], "scheduler,agent");
    let code = code(
        folder.path(),
        "def run(context):\n    return {'n': context['parameters']['n'] + 1}\n",
    );
    let pushed =
        good(&server, &["artifact", "push", &code, "--name", "sync", "--label", "by=test"]);
    assert!(pushed.contains("sync@1 is sha256:"), "{pushed}");
    let again = good(&server, &["artifact", "push", &code, "--name", "sync"]);
    assert_eq!(pushed, again, "the same content is the same version");
    for (name, more) in [("here", vec![]), ("far", vec!["--run-on", "place=far"])] {
        let mut words =
            vec!["job", "create", name, "--artifact", "sync@1", "--entrypoint", "main:run"];
        words.extend(more);
        good(&server, &words);
    }
    let token = json!({"labels": {"place": "far"}});
    let (_, made) = server.call("POST", "/v1/agent-tokens", Some(&token));
    let token = made["token"].as_str().unwrap().to_owned();
    let data = folder.path().join("agent");
    let config = folder.path().join("agent.toml");
    fs::write(&config, "[artifacts]\nenabled = true\n").unwrap();
    let url = format!("http://{}", server.address);
    let more = ["--join", &token, "--name", "far", "--config", config.to_str().unwrap()];
    let _agent = Agent::start(&data, &url, &more);
    for job in ["here", "far"] {
        let body = json!({"parameters": {"n": 41}});
        let (_, run) = server.call("POST", &format!("/v1/jobs/{job}/trigger"), Some(&body));
        let run = ended(&server, run["execution_id"].as_str().unwrap());
        assert_eq!(run["status"], "COMPLETED", "{job}: {run}");
        assert!(run.to_string().contains("42"), "{job}: {run}");
    }
    for data in ["data", "agent"] {
        let cache = folder.path().join(data).join("artifact-cache/unpacked");
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 1, "{data}");
    }
    let shown = good(&server, &["artifact", "show", "sync"]);
    assert!(shown.contains("far, here") && shown.contains("by=test"), "{shown}");
    let used = cli(&server, &["artifact", "delete", "sync@1", "--yes"]);
    assert_eq!(used.code, Some(4), "{used:?}");
    let to = folder.path().join("pulled.tar.zst");
    good(&server, &["artifact", "pull", "sync@1", "--to", to.to_str().unwrap()]);
    let digest: String =
        Sha256::digest(fs::read(&to).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(pushed.contains(&digest), "{pushed}");
    let missing = cli(&server, &["artifact", "show", "sync@7"]);
    assert_eq!(missing.code, Some(3), "{missing:?}");
}

/// `('customer_sync', '0 2 * * *', 'artifact-123', 'main:run')`: submitted through a queue, fetched
/// from object storage and executed.
#[test]
fn the_submission_of_the_third_seed_arrives_through_a_queue_and_runs() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let server = start(&folder.path().join("data"), &[], "scheduler,agent");
    let code = code(folder.path(), "def run(context):\n    return context['artifact']\n");
    good(&server, &["artifact", "push", &code, "--name", "artifact-123"]);
    good(&server, &["queue", "create", "punctual.jobs"]);
    let submission = json!({
        "name": "customer_sync", "schedule_cron": "0 2 * * *",
        "artifact_id": "artifact-123", "entrypoint": "main:run",
    });
    good(&server, &["queue", "send", "punctual.jobs", &submission.to_string()]);
    let job = until(|| {
        let (status, job) = server.call("GET", "/v1/jobs/customer_sync", None);
        (status == 200).then_some(job)
    });
    assert_eq!(job["cron_expression"], "0 2 * * *");
    assert_eq!(job["payload"]["pinned"]["version"], 1, "{job}");
    let run = ended(&server, &trigger(&server, "customer_sync"));
    assert_eq!((&run["status"], &run["result"]), (&json!("COMPLETED"), &json!("artifact-123")));
}

#[test]
fn a_worker_runs_an_artifact_for_each_message_of_a_queue() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let server = start(&folder.path().join("data"), &[], "scheduler");
    let program = "def run(context):\n    message = context['parameters']\n    number = message['payload']['n']\n    print('working on', number)\n    if number < 0:\n        raise ValueError('too small')\n    return [number * 2, message['workspace'], message['headers']['by']]\n";
    let code = code(folder.path(), program);
    good(&server, &["artifact", "push", &code, "--name", "double"]);
    good(&server, &["queue", "create", "numbers", "--max-attempts", "1"]);
    let messages: Vec<_> = [1, 2, 3, -1]
        .map(|n| json!({"payload": {"n": n}, "workspace": "w", "headers": {"by": "test"}}))
        .into();
    let body = json!({ "messages": messages });
    let (status, sent) = server.call("POST", "/v1/queues/numbers/messages", Some(&body));
    assert!(status < 300, "{sent}");
    let work = folder.path().join("worker");
    let worker = |more: &[&str]| {
        let words = ["worker", "numbers", "--artifact", "double", "--folder"];
        let words = [&words[..], &[work.to_str().unwrap()], more].concat();
        cli(&server, &words)
    };
    let ended = worker(&["--entrypoint", "main:run", "--concurrency", "2", "--until-empty"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (_, list) = server.call("GET", "/v1/queues/numbers/messages", None);
    let list = list["data"].as_array().unwrap();
    let mut outcomes: Vec<_> = list
        .iter()
        .map(|it| format!("{} {} {}", it["payload"]["n"], it["status"], it["result"]))
        .collect();
    outcomes.sort();
    let completed = |n: i32| format!("{n} \"COMPLETED\" [{},\"w\",\"test\"]", 2 * n);
    assert_eq!(outcomes[1..], [completed(1), completed(2), completed(3)]);
    assert!(outcomes[0].starts_with("-1 \"FAILED\""), "{outcomes:?}");
    let failed = list.iter().find(|it| it["payload"]["n"] == -1).unwrap();
    let shown = good(&server, &["run", "logs", failed["id"].as_str().unwrap()]);
    assert!(shown.contains("working on -1") && shown.contains("ValueError"), "{shown}");
    // What is wrong with the worker itself ends it.
    let wrong = worker(&["--entrypoint", "/bin/sh", "--until-empty"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let words = ["worker", "nothing", "--artifact", "double", "--entrypoint", "main:run"];
    let words = [&words[..], &["--folder", work.to_str().unwrap()]].concat();
    let missing = cli(&server, &words);
    assert_eq!(missing.code, Some(3), "{missing:?}");
}

#[test]
fn a_push_goes_on_after_the_server_was_killed() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let data = folder.path().join("data");
    let server = start(&data, &[], "scheduler,agent");
    let code = code(folder.path(), "def run():\n    return 1\n");
    good(&server, &["artifact", "push", &code, "--name", "first"]);
    let archive = folder.path().join("it.tar.zst");
    good(&server, &["artifact", "pull", "first", "--to", archive.to_str().unwrap()]);
    let bytes = fs::read(&archive).unwrap();
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let path = format!("/v1/artifacts/second/uploads/{digest}");
    assert!(put(&server, &path, &bytes[..60]).contains("\"received\":60"));
    let address = server.address.clone();
    server.kill();
    let server = start(&data, &["--http", &address], "scheduler,agent");
    let (_, upload) = server.call("GET", &path, None);
    assert_eq!(upload["received"], 60, "{upload}");
    let pushed =
        good(&server, &["artifact", "push", archive.to_str().unwrap(), "--name", "second"]);
    assert!(pushed.contains("second@1"), "{pushed}");
    assert_eq!(fs::read_dir(data.join("artifact-uploads")).unwrap().count(), 0);
}

#[test]
fn a_server_that_is_killed_while_it_unpacks_runs_only_what_is_whole() {
    const FILES: usize = 2_000;
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let data = folder.path().join("data");
    let mut server = start(&data, &[], "scheduler,agent");
    let program = format!(
        "import os\ndef run():\n    names = os.listdir(os.environ['PUNCTUAL_ARTIFACT'] + '/many')\n    assert len(names) == {FILES}, len(names)\n    return len(names)\n"
    );
    let code = code(folder.path(), &program);
    fs::create_dir(Path::new(&code).join("many")).unwrap();
    for number in 0..FILES {
        fs::write(Path::new(&code).join(format!("many/{number}.txt")), number.to_string()).unwrap();
    }
    let push = |server: &Server, round: usize| {
        fs::write(Path::new(&code).join("round"), round.to_string()).unwrap();
        good(server, &["artifact", "push", &code, "--name", "many"]);
    };
    push(&server, 0);
    let action = ["--artifact", "many@latest", "--floating", "--entrypoint", "main:run"];
    let words =
        [&["job", "create", "it", "--retries", "9", "--backoff", "1s"][..], &action].concat();
    good(&server, &words);
    let cache = data.join("artifact-cache");
    let names = |folder: &str| {
        let entries = fs::read_dir(cache.join(folder)).into_iter().flatten().flatten();
        entries.map(|it| it.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let (mut round, mut kills_in_time) = (0, 0);
    while kills_in_time < 3 {
        assert!(round < 20, "no kill came in time");
        round += 1;
        push(&server, round);
        let before = names("unpacked").len();
        let run = trigger(&server, "it");
        // Every other time while the archive arrives, otherwise while the folder is filled.
        let part = if round % 2 == 0 { ".tar.zst" } else { ".folder" };
        until(|| names("incoming").iter().any(|name| name.ends_with(part)).then_some(()));
        let address = server.address.clone();
        server.kill();
        kills_in_time += usize::from(names("unpacked").len() == before);
        server = start(&data, &["--http", &address], "scheduler,agent");
        let run = ended(&server, &run);
        assert_eq!(run["status"], "COMPLETED", "{run}");
        assert_eq!(names("unpacked").len(), before + 1);
        assert_eq!(names("incoming"), [""; 0], "what was not whole is deleted");
    }
}

#[test]
fn an_agent_that_is_killed_while_it_fetches_fetches_again() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let server = start(&folder.path().join("data"), &[], "scheduler");
    let code = code(folder.path(), "def run():\n    return 1\n");
    let (_, made) = server.call("POST", "/v1/agent-tokens", Some(&json!({})));
    let token = made["token"].as_str().unwrap().to_owned();
    let config = folder.path().join("agent.toml");
    fs::write(&config, "[artifacts]\nenabled = true\n").unwrap();
    let data = folder.path().join("agent");
    let url = format!("http://{}", server.address);
    let begin = || {
        let more = ["--join", &token, "--name", "far", "--config", config.to_str().unwrap()];
        Agent::start(&data, &url, &more)
    };
    let names = |folder: &str| {
        let entries = fs::read_dir(data.join("artifact-cache").join(folder));
        let entries = entries.into_iter().flatten().flatten();
        entries.map(|it| it.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut agent = begin();
    let (mut round, mut kills_in_time) = (0_u64, 0);
    while kills_in_time == 0 {
        assert!(round < 20, "no kill came in time");
        round += 1;
        // Content that does not compress, so that it takes a moment to arrive.
        let mut state = round;
        let noise = (0..4_000_000_u32).flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33).to_le_bytes()
        });
        fs::write(Path::new(&code).join("noise"), noise.collect::<Vec<u8>>()).unwrap();
        good(&server, &["artifact", "push", &code, "--name", "large"]);
        let job = format!("j{round}");
        let what = ["--artifact", "large", "--entrypoint", "main:run", "--retries", "9"];
        good(&server, &[&["job", "create", &job, "--backoff", "1s"][..], &what].concat());
        let before = names("unpacked").len();
        let run = trigger(&server, &job);
        until(|| names("incoming").iter().any(|name| name.ends_with(".tar.zst")).then_some(()));
        agent.kill();
        kills_in_time += usize::from(names("unpacked").len() == before);
        agent = begin();
        let run = ended(&server, &run);
        assert_eq!(run["status"], "COMPLETED", "{run}");
        assert_eq!(names("unpacked").len(), before + 1);
        assert_eq!(names("incoming"), [""; 0], "what was not whole is deleted");
    }
}

/// Every file below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.map(|entry| match entry.path().is_dir() {
        true => files_below(&entry.path()),
        false => vec![entry.path()],
    });
    below.flatten().collect()
}

#[test]
fn outputs_survive_servers_that_are_killed_while_they_archive() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let (data, storage) = (folder.path().join("data"), folder.path().join("storage"));
    let begin = |address: &str| {
        let variables = [
            ENABLED,
            ("PUNCTUAL_ARTIFACTS__URL", storage.to_str().unwrap()),
            ("PUNCTUAL_JOBS__OUTPUT_ARCHIVE_AFTER", "1s"),
            ("PUNCTUAL_ENGINE__LEASE", "8s"),
        ];
        Server::start_with(&data, &["--http", address], &variables)
    };
    let mut server = begin("127.0.0.1:0");
    let program = "def run(context):\n    for line in range(5000):\n        print(context['run'], line, line * line * 7919)\n";
    good(&server, &["artifact", "push", &code(folder.path(), program), "--name", "talk"]);
    good(&server, &["job", "create", "talk", "--artifact", "talk@1", "--entrypoint", "main:run"]);
    let expected = |run: &str| {
        let lines = (0..5000_u64).map(|line| format!("{run} {line} {}\n", line * line * 7919));
        lines.collect::<String>()
    };
    let mut runs = Vec::new();
    // Without an upload that a kill has cut off: a folder holds it beside its object.
    let is_whole = |path: &PathBuf| !path.to_string_lossy().contains('#');
    let stored = || files_below(&storage.join("outputs")).into_iter().filter(is_whole);
    let objects = || stored().count();
    for _ in 0..3 {
        for _ in 0..4 {
            let run = trigger(&server, "talk");
            assert_eq!(ended(&server, &run)["status"], "COMPLETED");
            runs.push(run);
        }
        // Killed while it is at work: the files of a round become old enough one after the other.
        let before = objects();
        until(|| (before == runs.len() || objects() > before).then_some(()));
        let address = server.address.clone();
        server.kill();
        server = begin(&address);
        for run in &runs {
            let log = cli(&server, &["run", "logs", run]);
            assert!(log.stdout == expected(run), "{}: {}", log.stdout.len(), log.stderr);
        }
    }
    until(|| files_below(&data.join("outputs")).is_empty().then_some(()));
    assert_eq!(objects(), runs.len(), "{:?}", stored().collect::<Vec<_>>());
    for run in &runs {
        let log = cli(&server, &["run", "logs", run]);
        assert!(log.stdout == expected(run), "{}: {}", log.stdout.len(), log.stderr);
    }
    // Storage that is gone is an error, not an empty output.
    fs::rename(&storage, folder.path().join("away")).unwrap();
    fs::remove_dir_all(data.join("output-cache")).unwrap();
    fs::create_dir(data.join("output-cache")).unwrap();
    let log = cli(&server, &["run", "logs", &runs[0]]);
    assert_eq!(log.stdout, "");
    assert!(log.code != Some(0) && log.stderr.contains("was archived"), "{log:?}");
}

#[test]
fn a_backup_with_artifacts_runs_them_elsewhere() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let server = start(&folder.path().join("data"), &[], "scheduler,agent");
    let code = code(folder.path(), "def run():\n    return 'restored'\n");
    good(&server, &["artifact", "push", &code, "--name", "sync"]);
    good(&server, &["job", "create", "it", "--artifact", "sync@1", "--entrypoint", "main:run"]);
    good(&server, &["backup", "--to", &path("with.tar.zst"), "--with-artifacts"]);
    good(&server, &["backup", "--to", &path("without.tar.zst")]);
    server.kill();
    let restored = |from: &str, data: &str| {
        let ended = run(["restore", "--from", &path(from), "--data", &path(data)], b"");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.stdout + &ended.stderr
    };
    let said = restored("without.tar.zst", "bare");
    assert!(said.contains("needs 1 versions of artifacts that are not in it (sync@1)"), "{said}");
    let check = run(["restore", "--from", &path("with.tar.zst"), "--check", "-o", "json"], b"");
    let check: Value = serde_json::from_str(&check.stdout).unwrap();
    assert_eq!(check["artifacts"][0]["name"], "sync@1", "{check}");
    assert_eq!(check["missing_artifacts"], json!([]), "{check}");
    // Once with storage in the data folder, once with storage of its own.
    for (data, storage) in [("inside", ""), ("beside", "storage")] {
        let said = restored("with.tar.zst", data);
        assert!(!said.contains("are not in it"), "{said}");
        let objects = folder.path().join(data).join("artifacts/sha256");
        assert_eq!(files_below(&objects).len(), 1);
        let url = if storage.is_empty() { String::new() } else { path(storage) };
        let variables = [ENABLED, ("PUNCTUAL_ARTIFACTS__URL", url.as_str())];
        let server = Server::start_with(&folder.path().join(data), &[], &variables);
        let run = trigger(&server, "it");
        let run = ended(&server, &run);
        assert_eq!(run["status"], "COMPLETED", "{run}");
        assert!(run.to_string().contains("restored"), "{run}");
        assert_eq!(files_below(&objects).len(), usize::from(storage.is_empty()));
        server.kill();
    }
    // An archive that is damaged fails the backup that should contain it.
    let data = folder.path().join("inside");
    let server = start(&data, &[], "scheduler");
    let object = files_below(&data.join("artifacts/sha256")).remove(0);
    let digest = object.file_name().unwrap().to_str().unwrap().to_owned();
    for (content, problem) in [(Some("damaged"), "is damaged"), (None, "does not exist")] {
        match content {
            Some(content) => fs::write(&object, content).unwrap(),
            None => fs::remove_file(&object).unwrap(),
        }
        let failed = cli(&server, &["backup", "--to", &path("bad.tar.zst"), "--with-artifacts"]);
        assert!(failed.code != Some(0), "{failed:?}");
        let cause =
            format!("artifact sync@1 cannot be backed up: object sha256:{digest} {problem}");
        assert!(failed.stderr.contains(&cause), "{failed:?}");
        assert!(!folder.path().join("bad.tar.zst").exists());
    }
}
