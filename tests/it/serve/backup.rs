//! Backups of a server that runs on, and servers that are made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::process::{Server, until};
use crate::binary::{Ended, run};

fn start(data: &Path, target: &Path) -> Server {
    let target = target.to_str().unwrap();
    let variables = [
        ("PUNCTUAL_BACKUP__TARGETS__NIGHTLY", target),
        ("PUNCTUAL_ENGINE__LEASE", "3s"),
        ("PUNCTUAL_ENGINE__RENEW_EVERY", "500ms"),
        ("PUNCTUAL_ENGINE__LOOK_AHEAD", "2s"),
    ];
    Server::start_with(data, &[], &variables)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn job(server: &Server, body: &Value) {
    let (status, answer) = server.call("POST", "/v1/jobs", Some(body));
    assert_eq!(status, 201, "{answer}");
}

fn restore(archive: &Path, data: &Path) -> Ended {
    run(["restore", "--from", archive.to_str().unwrap(), "--data", data.to_str().unwrap()], b"")
}

/// Every run of the server, page by page.
fn ledger(server: &Server) -> Vec<Value> {
    let (mut runs, mut next) = (Vec::new(), String::new());
    loop {
        let (status, page) = server.call("GET", &format!("/v1/executions?limit=500{next}"), None);
        assert_eq!(status, 200, "{page}");
        runs.extend(page["data"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return runs,
        }
    }
}

fn time(run: &Value, field: &str) -> Timestamp {
    run[field].as_str().unwrap().parse().unwrap()
}

/// Jobs fire every second while one backup after the other is made. The server is killed, the last
/// backup is restored elsewhere, and there every second has one outcome, from the first on.
#[test]
fn a_backup_under_load_is_a_server_again() {
    let folder = tempfile::tempdir().unwrap();
    let (data, target) = (folder.path().join("data"), folder.path().join("target"));
    let server = start(&data, &target);
    for n in 0..10 {
        let sql = "CREATE TABLE IF NOT EXISTS t (run TEXT); INSERT INTO t VALUES (punctual('job_run_uuid'))";
        job(
            &server,
            &json!({"name": format!("sql-{n}"), "interval_seconds": 1, "payload": {"sql": sql}}),
        );
        job(
            &server,
            &json!({"name": format!("noop-{n}"), "interval_seconds": 1, "payload": {"type": "NOOP"}}),
        );
    }
    // An hour of counting: it runs when the backups are made.
    let count = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000000000) \
                 SELECT max(n) FROM c";
    job(&server, &json!({"name": "long", "job_type": "MANUAL", "payload": {"sql": count}}));
    let (_, long) = server.call("POST", "/v1/jobs/long/trigger", None);
    let long = long["execution_id"].as_str().unwrap();
    let status = |server: &Server, run: &str| {
        server.call("GET", &format!("/v1/executions/{run}"), None).1["status"].clone()
    };
    until(|| (status(&server, long) == "RUNNING").then_some(()));
    let completed = |runs: &[Value]| runs.iter().filter(|run| run["status"] == "COMPLETED").count();
    until(|| (completed(&ledger(&server)) > 60).then_some(()));
    let mut backup = Value::Null;
    for _ in 0..5 {
        let order = json!({"target": "nightly", "keep": 2});
        let (status, made) = server.call("POST", "/v1/backups", Some(&order));
        assert_eq!(status, 201, "{made}");
        backup = made;
    }
    assert_eq!(names(&target).len(), 2, "two are kept: {:?}", names(&target));
    let archive = target.join(backup["name"].as_str().unwrap());
    assert_eq!(fs::metadata(&archive).unwrap().len(), backup["bytes"].as_u64().unwrap());
    // Nothing stopped while they were made.
    let before: BTreeMap<String, Value> = ledger(&server)
        .into_iter()
        .map(|run| (run["execution_id"].as_str().unwrap().to_owned(), run))
        .collect();
    let fences = |runs: &mut dyn Iterator<Item = &Value>| -> i64 {
        runs.filter_map(|run| run["fence"].as_i64()).max().unwrap_or(0)
    };
    let last_fence = fences(&mut before.values());
    server.kill();

    let elsewhere = folder.path().join("elsewhere");
    let ended = restore(&archive, &elsewhere);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("jobs: 21"), "{ended:?}");
    assert!(ended.stderr.contains("master.key"), "keys are not part of it: {ended:?}");
    let server = start(&elsewhere, &target);
    // What ran is tried again, under a fence that the old server never came to.
    until(|| {
        let (_, attempts) = server.call("GET", &format!("/v1/executions/{long}/attempts"), None);
        (attempts["data"][0]["status"] == "LOST").then_some(())
    });
    until(|| (status(&server, long) == "RUNNING").then_some(()));
    let after = until(|| {
        let runs = ledger(&server);
        (fences(&mut runs.iter()) > last_fence).then_some(runs)
    });
    assert!(fences(&mut after.iter()) < 1 << 53);
    let mut jobs: BTreeMap<String, BTreeSet<Timestamp>> = BTreeMap::new();
    assert!(completed(&after) > 60, "{} had completed", completed(&after));
    for run in &after {
        if let Some(known) = before.get(run["execution_id"].as_str().unwrap()) {
            let same = ["job_id", "scheduled_time"];
            assert!(same.iter().all(|field| run[*field] == known[*field]), "{run} was {known}");
        }
        let first = time(run, "scheduled_time");
        let last = run["scheduled_until"].as_str().map_or(first, |text| text.parse().unwrap());
        let times = jobs.entry(run["job_name"].as_str().unwrap().to_owned()).or_default();
        for second in first.as_second()..=last.as_second() {
            let is_new = times.insert(Timestamp::from_second(second).unwrap());
            assert!(is_new || run["job_name"] == "long", "twice: {run}");
        }
    }
    for (job, times) in jobs.iter().filter(|(job, _)| *job != "long") {
        let (first, last) = (times.first().unwrap(), times.last().unwrap());
        let seconds = last.as_second() - first.as_second() + 1;
        assert_eq!(times.len() as i64, seconds, "{job} has a hole between {first} and {last}");
    }
    assert_eq!(jobs.len(), 21);
}

#[test]
fn a_kill_in_the_middle_leaves_no_half_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (data, target) = (folder.path().join("data"), folder.path().join("target"));
    let server = start(&data, &target);
    // Enough to take a while: outputs that do not compress.
    let outputs = data.join("outputs/ab/01a1de7c-fa08-7582-9c28-84b666387cab");
    fs::create_dir_all(&outputs).unwrap();
    let mut noise = 1_u64;
    for n in 0..64 {
        let mut bytes = Vec::with_capacity(1 << 20);
        while bytes.len() < 1 << 20 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.extend(noise.to_be_bytes());
        }
        fs::write(outputs.join(format!("{n}.zst")), bytes).unwrap();
    }
    let (address, key) = (server.address.clone(), server.key.clone());
    let asking = std::thread::spawn(move || {
        let order = json!({"target": "nightly"});
        // The server dies before it answers.
        super::client::request(&address, &key, "POST", "/v1/backups", Some(&order)).is_ok()
    });
    let part = until(|| names(&target).into_iter().find(|name| name.ends_with(".part")));
    until(|| (fs::metadata(target.join(&part)).ok()?.len() > 1 << 20).then_some(()));
    server.kill();
    assert!(!asking.join().unwrap(), "it was not done");
    assert_eq!(names(&target), [part], "a draft, and no backup");
    assert!(data.join("backup.tmp").exists());

    let server = start(&data, &target);
    assert!(!data.join("backup.tmp").exists(), "copies are cleared away at the start");
    let (status, made) =
        server.call("POST", "/v1/backups", Some(&json!({"target": "nightly", "outputs": false})));
    assert_eq!(status, 201, "{made}");
    assert_eq!(names(&target), [made["name"].as_str().unwrap()], "the draft is gone");
}

#[test]
fn a_job_makes_backups_and_keeps_so_many() {
    let folder = tempfile::tempdir().unwrap();
    let (data, target) = (folder.path().join("data"), folder.path().join("target"));
    let server = start(&data, &target);
    let payload = json!({"type": "backup", "target": "nightly", "keep": 2});
    job(&server, &json!({"name": "nightly", "job_type": "MANUAL", "payload": payload}));
    job(
        &server,
        &json!({
            "name": "nowhere", "job_type": "MANUAL", "payload": {"type": "BACKUP", "target": "moon"},
            "retry_config": {"max_attempts": 2, "backoff_seconds": 1},
        }),
    );
    let finish = |name: &str| {
        let (_, run) = server.call("POST", &format!("/v1/jobs/{name}/trigger"), None);
        let path = format!("/v1/executions/{}", run["execution_id"].as_str().unwrap());
        until(|| {
            let (_, run) = server.call("GET", &path, None);
            run["completed_at"].is_string().then_some(run)
        })
    };
    let mut made = Vec::new();
    for _ in 0..3 {
        let run = finish("nightly");
        assert_eq!(run["status"], "COMPLETED", "{run}");
        made.push(run["result"]["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(names(&target), made[1..]);
    let lost = finish("nowhere");
    assert_eq!(
        (&lost["status"], &lost["error_name"]),
        (&json!("FAILED"), &json!("BACKUP_TARGET_UNKNOWN"))
    );
    assert_eq!(lost["attempt_number"], 2, "a target can be configured meanwhile: {lost}");
    let text = lost["error_message"].as_str().unwrap();
    assert!(text.contains("\"moon\"") && text.contains("nightly"), "{text}");
}

/// What a person does: by name, into a folder, into a file, through a pipe; then the way back.
#[test]
fn the_command_line_writes_and_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let (data, target) = (folder.path().join("data"), folder.path().join("target"));
    let server = start(&data, &target);
    job(&server, &json!({"name": "hello", "job_type": "MANUAL", "payload": {"type": "NOOP"}}));
    let backup = |to: &str, more: &[&str]| {
        let data = data.to_str().unwrap();
        run([&["backup", "--to", to, "--data", data][..], more].concat(), b"")
    };
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let named = backup("nightly", &["-o", "name"]);
    assert_eq!((named.code, names(&target)), (Some(0), vec![named.stdout.trim().to_owned()]));
    let verbose = backup("nightly", &["-v"]);
    assert!(
        verbose.stderr.contains("POST ") && verbose.stderr.contains("201, request "),
        "{verbose:?}"
    );
    assert_eq!(backup(&place("here/"), &[]).code, Some(0));
    assert_eq!(names(&folder.path().join("here")).len(), 1);
    let file = backup(&place("one.tar.zst"), &["--json", "--no-outputs"]);
    assert_eq!(file.code, Some(0), "{file:?}");
    let told: Value = serde_json::from_str(&file.stdout).unwrap();
    assert_eq!(told["bytes"], fs::metadata(place("one.tar.zst")).unwrap().len());
    for (to, more, code, words) in [
        (place("one.tar.zst"), &[][..], 4, "nothing is overwritten"),
        ("other".to_owned(), &[], 2, "write ./other"),
        ("s3://bucket/x".to_owned(), &[], 2, "object storage"),
        (place("x/"), &["--keep", "2"], 2, "needs a target of the server"),
    ] {
        let ended = backup(&to, more);
        assert_eq!(ended.code, Some(code), "{to}: {ended:?}");
        assert!(ended.stderr.contains(words), "{to}: {ended:?}");
    }
    let check = |from: &str| run(["restore", "--check", "--from", from], b"");
    assert!(check(&place("here")).stderr.contains("is whole"));
    let cut: PathBuf = folder.path().join("cut.tar.zst");
    let whole = fs::read(place("one.tar.zst")).unwrap();
    fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    let damaged = check(cut.to_str().unwrap());
    assert_eq!(damaged.code, Some(1), "{damaged:?}");
    assert!(damaged.stderr.contains("is damaged: "), "{damaged:?}");
    assert_eq!(check(&place("nothing")).code, Some(3));
    let used = restore(Path::new(&place("one.tar.zst")), &data);
    assert_eq!(used.code, Some(4), "{used:?}");
    assert!(used.stderr.contains("is in use by process"), "{used:?}");
    server.terminate();
    assert_eq!(server.wait(), Some(0));
    let full = restore(Path::new(&place("one.tar.zst")), &data);
    assert_eq!(full.code, Some(4), "{full:?}");
    assert!(full.stderr.contains("is not empty"), "{full:?}");

    let new = folder.path().join("new");
    fs::create_dir(&new).unwrap();
    fs::copy(data.join("master.key"), new.join("master.key")).unwrap();
    let restored = restore(Path::new(&place("one.tar.zst")), &new);
    assert_eq!(restored.code, Some(0), "{restored:?}");
    assert!(!restored.stderr.contains("note:"), "the key is the right one: {restored:?}");
    // A restore that did not come to its end is no data folder.
    fs::create_dir(new.join("restore.tmp")).unwrap();
    let refused = run(["serve", "--http", "127.0.0.1:0", "--data", new.to_str().unwrap()], b"");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("has not ended"), "{refused:?}");
    assert_eq!(restore(Path::new(&place("one.tar.zst")), &new).code, Some(0));
    let server = start(&new, &target);
    assert_eq!(server.call("GET", "/v1/jobs/hello", None).0, 200);
    // Nobody logs in to restore: the audit has the user of the operating system.
    let path = "/v1/audit?scope=cluster&event_type=BACKUP&limit=1";
    let event = server.call("GET", path, None).1["data"][0].clone();
    assert_eq!(event["outcome"], "RESTORED", "{event}");
    let actor = event["actor"].as_str().unwrap();
    assert!(actor.strip_prefix("os:").is_some_and(|user| !user.is_empty()), "{event}");
    assert!(event["details"].as_str().unwrap().contains("one.tar.zst"), "{event}");
}

#[test]
fn object_storage_is_a_target_that_has_whole_backups_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let (data, storage) = (folder.path().join("data"), folder.path().join("storage"));
    let outgoing = data.join("backup-outgoing.tmp");
    // What a killed server left behind.
    fs::create_dir_all(&outgoing).unwrap();
    fs::write(outgoing.join("punctual-20260101T000000.000Z.tar.zst"), "half").unwrap();
    let server = start(&data, Path::new(&format!("file://{}", storage.display())));
    assert!(!outgoing.exists());
    let order = json!({"target": "nightly", "keep": 2});
    let mut made = Vec::new();
    for round in 0..3 {
        let (status, backup) = server.call("POST", "/v1/backups", Some(&order));
        assert_eq!(status, 201, "{backup}");
        let removed: &[String] = if round == 2 { &made[..1] } else { &[] };
        assert_eq!(backup["removed"], json!(removed));
        made.push(backup["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(names(&storage), made[1..]);
    assert_eq!(names(&outgoing), [""; 0], "nothing stays in the data folder");
    let restored = restore(&storage.join(&made[2]), &folder.path().join("restored"));
    assert_eq!(restored.code, Some(0), "{restored:?}");
    server.kill();
    let free = testbed::postgres::free_port().unwrap();
    let server =
        start(&data, Path::new(&format!("s3://bucket/x?endpoint=http://127.0.0.1:{free}")));
    let (status, failed) = server.call("POST", "/v1/backups", Some(&order));
    assert!(status >= 500, "{failed}");
    assert!(failed.to_string().contains("object storage is unavailable"), "{failed}");
    assert_eq!(names(&outgoing), [""; 0]);
}
