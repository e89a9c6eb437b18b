//! Outputs in object storage: the same answers as from files, on every node, until history ends.

use std::path::{Path, PathBuf};

use blobs::BlobStore;
use domain::id::RunId;
use jiff::SignedDuration;
use serde_json::json;
use server::{ArchiveRule, OutputArchive, OutputArchiver, Sweeper};

use crate::world::World;

const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Looks at every output once; answers of how many runs it was moved.
async fn archive(world: &World, rule: ArchiveRule) -> Result<usize, String> {
    let mut archiver = OutputArchiver::new(&world.app, rule).unwrap();
    let (mut moved, mut parts) = (0, 0);
    while parts < 256 {
        let page = archiver.step().await?;
        moved += page.moved;
        parts += usize::from(!page.is_more);
    }
    Ok(moved)
}

fn after_a_week() -> ArchiveRule {
    ArchiveRule { after: Some(WEEK), bytes: None }
}

async fn long_run(world: &World, name: &str, days: u32) -> RunId {
    let body = json!({
        "name": name, "job_type": "MANUAL", "payload": {"endpoint": "http://long"},
        "retention": {"days": days},
    });
    assert_eq!(world.post("/v1/jobs", body).await.status, 201);
    let run = world.trigger(name).await;
    assert_eq!(world.ended(&run).await["status"], "COMPLETED");
    run.parse().unwrap()
}

/// Everything that REST tells about an output.
async fn answers(world: &World, run: RunId) -> Vec<(u16, String)> {
    let path = format!("/v1/executions/{run}/logs");
    let mut answers = Vec::new();
    for path in [
        path.clone(),
        format!("{path}?stream=stderr"),
        format!("{path}?follow=true"),
        format!("{path}/index"),
        format!("{path}/search?q=needle"),
    ] {
        let reply = world.get(&path).await;
        answers.push((reply.status, reply.text));
    }
    for range in ["bytes=1000000-1000100", "bytes=-50"] {
        let reply = world.call("GET", &path, &[("range", range)], None).await;
        answers.push((reply.status, format!("{} {}", reply.header("content-range"), reply.text)));
    }
    let sse = [("accept", "text/event-stream")];
    let reply = world.call("GET", &path, &sse, None).await;
    answers.push((reply.status, reply.text));
    answers
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.path().is_dir() {
            true => files_below(&entry.path()),
            false => vec![entry.path()],
        })
        .collect()
}

/// Storage that does not answer.
fn offline(world: &World) -> std::sync::Arc<OutputArchive> {
    let address = "s3://bucket?region=eu-west-1&endpoint=http://127.0.0.1:1";
    let blobs = BlobStore::at(address, "ID:SECRET").unwrap();
    OutputArchive::new(blobs, world.path("offline-cache")).unwrap()
}

/// A world whose archive is another one.
fn with_archive(mut world: World, archive: std::sync::Arc<OutputArchive>) -> World {
    world.app = world.app.but(|parts| parts.output_archive = archive);
    world.router = server::router(world.app.clone());
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archived_output_is_read_like_files_and_goes_with_history() {
    let world = World::now().await;
    let run = long_run(&world, "j", 20).await;
    let before = answers(&world, run).await;
    assert!(before[0].1.contains("line 059999") && before[4].1.contains("needle"));
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 0, "it is too young");
    let start = (world.app.clock)();
    world.go_to_instant(start + SignedDuration::from_hours(8 * 24));
    let (files, objects) = (world.path("outputs"), world.path("artifacts/outputs"));
    let kept = files_below(&files);
    assert!(!kept.is_empty());
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 1);
    assert_eq!(files_below(&files), Vec::<PathBuf>::new(), "nothing is left on this node");
    assert_eq!(files_below(&objects).len(), 1);
    assert!(answers(&world, run).await == before, "the same from object storage");
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 0, "there is nothing more to move");

    // The sweeper leaves it as long as history has the run.
    let sweep = async || {
        let (mut sweeper, mut parts, mut gone) = (Sweeper::new(&world.app), 0, 0);
        while parts < 256 {
            let swept = sweeper.step().await.unwrap();
            (gone, parts) = (gone + swept.gone, parts + usize::from(!swept.is_more));
        }
        gone
    };
    assert_eq!(sweep().await, 0);
    world.go_to_instant(start + SignedDuration::from_hours(30 * 24));
    while world.engine.node().prune().await.unwrap() > 0 {}
    assert_eq!(sweep().await, 1);
    assert_eq!(files_below(&objects), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_output_that_cannot_be_had_is_an_error_with_its_cause() {
    let world = World::now().await;
    let run = long_run(&world, "j", 90).await;
    world.go_to_instant((world.app.clock)() + SignedDuration::from_hours(8 * 24));
    let path = format!("/v1/executions/{run}/logs");
    // The archiver keeps the files while storage is away.
    let online = std::sync::Arc::clone(&world.app.output_archive);
    let away = offline(&world);
    let world = with_archive(world, std::sync::Arc::clone(&away));
    let problem = archive(&world, after_a_week()).await.unwrap_err();
    assert!(problem.contains("object storage is unavailable"), "{problem}");
    assert!(world.get(&path).await.text.contains("line 059999"));
    let world = with_archive(world, online);
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 1);

    let world = with_archive(world, away);
    let follow = format!("{path}?follow=true");
    for (path, accept) in [
        (path.as_str(), "text/plain"),
        (&follow, "text/plain"),
        (&path, "text/event-stream"),
        (&format!("{path}/index"), "application/json"),
        (&format!("{path}/search?q=x"), "application/json"),
    ] {
        let reply = world.call("GET", path, &[("accept", accept)], None).await;
        assert_eq!(reply.status, 503, "{path}: {}", reply.text);
        let cause = "the output of attempt 1 was archived: object storage is unavailable";
        assert!(reply.text.contains(cause), "{}", reply.text);
    }

    // An object that was changed, or is gone, is not shown.
    let blobs = BlobStore::in_folder(&world.path("artifacts")).unwrap();
    let fresh = OutputArchive::new(blobs, world.path("fresh-cache")).unwrap();
    let world = with_archive(world, fresh);
    let object = files_below(&world.path("artifacts/outputs")).remove(0);
    let content = std::fs::read(&object).unwrap();
    let mut wrong = content.clone();
    wrong[1000] ^= 1;
    for (content, cause) in [(Some(wrong), "is damaged"), (None, "object storage has no object")] {
        match content {
            Some(content) => std::fs::write(&object, content).unwrap(),
            None => std::fs::remove_file(&object).unwrap(),
        }
        let reply = world.get(&path).await;
        assert_eq!(reply.status, 500, "{}", reply.text);
        assert!(reply.text.contains(cause), "{}", reply.text);
    }
    std::fs::write(&object, content).unwrap();
    assert!(world.get(&path).await.text.contains("line 059999"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cached_output_that_was_changed_on_disk_is_fetched_again() {
    let world = World::now().await;
    let run = long_run(&world, "j", 90).await;
    world.go_to_instant((world.app.clock)() + SignedDuration::from_hours(8 * 24));
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 1);
    let path = format!("/v1/executions/{run}/logs");
    let text = world.get(&path).await.text;
    assert!(text.contains("line 059999"));
    let cached = files_below(&world.path("output-cache")).remove(0);
    let content = std::fs::read(&cached).unwrap();
    let mut changed = content.clone();
    changed[content.len() / 2] ^= 1;
    for damaged in [&[][..], &content[..content.len() / 2], &changed] {
        std::fs::write(&cached, damaged).unwrap();
        assert!(world.get(&path).await.text == text, "{} bytes", damaged.len());
        assert!(std::fs::read(&cached).unwrap() == content);
    }
    // Without the object it is an error, and without its folder one that passes.
    std::fs::write(&cached, "").unwrap();
    let storage = world.path("artifacts");
    let object = files_below(&storage.join("outputs")).remove(0);
    let away = world.path("away");
    std::fs::rename(&object, &away).unwrap();
    assert_eq!(world.get(&path).await.status, 500);
    std::fs::rename(&away, &object).unwrap();
    std::fs::rename(&storage, &away).unwrap();
    let reply = world.get(&path).await;
    assert_eq!(reply.status, 503, "{}", reply.text);
    assert!(reply.text.contains("object storage is unavailable: its folder"), "{}", reply.text);
    std::fs::rename(&away, &storage).unwrap();
    assert!(world.get(&path).await.text == text);
}

/// The files that a process leaves behind that is killed between two of their deletions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn archived_output_is_whole_while_some_of_its_files_are_left() {
    let world = World::now().await;
    let run = long_run(&world, "j", 90).await;
    let text = world.get(&format!("/v1/executions/{run}/logs")).await.text;
    world.go_to_instant((world.app.clock)() + SignedDuration::from_hours(8 * 24));
    let file = files_below(&world.path("outputs")).remove(0);
    let copy = std::fs::read(&file).unwrap();
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 1);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, &copy[..copy.len() / 2]).unwrap();
    let path = format!("/v1/executions/{run}/logs");
    for path in [path.clone(), format!("{path}?follow=true")] {
        let reply = tokio::time::timeout(std::time::Duration::from_secs(20), world.get(&path));
        assert!(reply.await.unwrap().text == text, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_that_cannot_be_read_does_not_keep_others_from_being_archived() {
    let world = World::now().await;
    let (first, second) = (long_run(&world, "j", 90).await, long_run(&world, "k", 90).await);
    let text = world.get(&format!("/v1/executions/{second}/logs")).await.text;
    world.go_to_instant((world.app.clock)() + SignedDuration::from_hours(8 * 24));
    // A folder in the place of a file: it cannot be read, even by root.
    let files = files_below(&world.path("outputs"));
    let file = files.iter().find(|file| file.to_str().unwrap().contains(&first.to_string()));
    std::fs::remove_file(file.unwrap()).unwrap();
    std::fs::create_dir(file.unwrap()).unwrap();
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 1, "the other run was moved");
    assert!(file.unwrap().exists());
    assert!(world.get(&format!("/v1/executions/{second}/logs")).await.text == text);
}

/// What a process leaves behind that is killed after each step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archiver_that_was_killed_goes_on_where_it_was() {
    let world = World::now().await;
    let run = long_run(&world, "j", 90).await;
    let text = world.get(&format!("/v1/executions/{run}/logs")).await.text;
    world.go_to_instant((world.app.clock)() + SignedDuration::from_hours(8 * 24));
    let files = files_below(&world.path("outputs"));
    let copies: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    let log = async || world.get(&format!("/v1/executions/{run}/logs")).await.text;

    // After the object was written, before its record: it is written again, under the same name.
    let packed = world.path("packed");
    let archived = world.app.outputs.pack(run, 1, &packed).unwrap();
    let blobs = &world.app.output_archive.blobs;
    blobs.put_named(&archived.object_name(run, 1), &packed).await.unwrap();
    assert!(log().await == text);
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 1);
    assert_eq!(files_below(&world.path("artifacts/outputs")).len(), 1);
    assert!(log().await == text);

    // After the record, before the files were deleted.
    let restore = || {
        std::fs::create_dir_all(files[0].parent().unwrap()).unwrap();
        for (file, copy) in files.iter().zip(&copies) {
            std::fs::write(file, copy).unwrap();
        }
    };
    restore();
    assert!(log().await == text);
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 1);
    assert_eq!(files_below(&world.path("outputs")), Vec::<PathBuf>::new());
    assert!(log().await == text);

    // Files that are not what the record names are not deleted.
    restore();
    let half = copies[0].len() / 2;
    std::fs::write(&files[0], &copies[0][..half]).unwrap();
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 0);
    assert_eq!(files_below(&world.path("outputs")).len(), files.len());
    std::fs::remove_dir_all(files[0].parent().unwrap()).unwrap();

    // A store that was restored from a backup does not know of the move.
    world.forget_archive(run);
    assert!(log().await == text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_outputs_are_moved_as_soon_as_their_runs_have_ended() {
    let world = World::now().await;
    let run = long_run(&world, "j", 90).await;
    world.go_to_instant((world.app.clock)() + SignedDuration::from_secs(120));
    let bytes = world.app.outputs.file_bytes(run).unwrap();
    let larger = |bytes| ArchiveRule { after: Some(WEEK), bytes: Some(bytes) };
    assert_eq!(archive(&world, larger(bytes + 1)).await.unwrap(), 0);
    assert_eq!(archive(&world, larger(bytes)).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_node_reads_an_archived_output() {
    let (world, other) = World::with_another().await;
    let run = long_run(&world, "j", 90).await;
    let path = format!("/v1/executions/{run}/logs");
    assert_eq!(other.get(&path).await.error().1, "OUTPUT_ELSEWHERE");
    world.go_to_instant((world.app.clock)() + SignedDuration::from_hours(8 * 24));
    assert_eq!(archive(&world, after_a_week()).await.unwrap(), 1);
    let blobs = world.app.output_archive.blobs.clone();
    let shared = OutputArchive::new(blobs, other.path("shared-cache")).unwrap();
    let other = with_archive(other, shared);
    let (here, there) = (answers(&world, run).await, answers(&other, run).await);
    assert!(here[0].1.contains("line 059999"));
    assert!(here == there);
}
