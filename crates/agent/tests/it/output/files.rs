//! Written output is read back.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use agent::output::{Limits, Output, Outputs, Stream};
use tokio::time::timeout;

use super::{all, files, outputs, run};

/// Longer than anything takes, so that a failure ends.
const BOUND: Duration = Duration::from_secs(60);

#[tokio::test]
async fn both_streams_are_kept_apart_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(dir.path(), 1 << 20, 1 << 20);
    let output = outputs.open(run(1), 1);
    output.write(Stream::Stdout, b"one\n");
    output.write(Stream::Stderr, b"two\n");
    output.write(Stream::Stdout, b"three\n");
    output.finish().await.unwrap();
    let slice = all(&outputs, run(1), None);
    assert_eq!(slice.bytes, b"one\ntwo\nthree\n");
    assert_eq!((slice.total, slice.next, slice.omitted, slice.is_final), (14, 14, 0, true));
    assert_eq!(all(&outputs, run(1), Some(Stream::Stdout)).bytes, b"one\nthree\n");
    assert_eq!(all(&outputs, run(1), Some(Stream::Stderr)).bytes, b"two\n");
}

#[tokio::test]
async fn every_range_is_the_same_as_a_part_of_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(dir.path(), 1 << 30, 1 << 20);
    let output = outputs.open(run(2), 1);
    let mut whole = Vec::new();
    for line in 0..40_000 {
        let text = format!("line {line} of many\n");
        output.write([Stream::Stdout, Stream::Stderr][line % 2], text.as_bytes());
        whole.extend(text.into_bytes());
    }
    output.finish().await.unwrap();
    for (from, max) in [(0, 10), (1, 0), (65_530, 20), (131_072, 65_536), (300_000, 200_000)] {
        let slice = outputs.read(run(2), 1, from, max, None).unwrap();
        let from = from as usize;
        assert_eq!(slice.bytes, whole[from..from + max], "{from} {max}");
        assert_eq!(slice.next, (from + max) as u64);
    }
    let end = whole.len() as u64;
    let slice = outputs.read(run(2), 1, end - 5, 100, None).unwrap();
    assert_eq!((slice.bytes.as_slice(), slice.next), (&whole[whole.len() - 5..], end));
    let slice = outputs.read(run(2), 1, end + 99, 100, None).unwrap();
    assert_eq!((slice.bytes.len(), slice.next, slice.total), (0, end, end));
    // A page of one stream after the other gives the stream.
    let (mut from, mut stderr) = (0, Vec::new());
    while from < end {
        let slice = outputs.read(run(2), 1, from, 1000, Some(Stream::Stderr)).unwrap();
        assert!(slice.next > from);
        from = slice.next;
        stderr.extend(slice.bytes);
    }
    assert_eq!(stderr, all(&outputs, run(2), Some(Stream::Stderr)).bytes);
    let size: u64 = files(dir.path()).iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(size < end / 3, "{size} bytes for {end} of text");
}

#[tokio::test]
async fn a_flood_leaves_its_head_its_tail_and_a_note() {
    const FLOOD: u64 = 100 << 20;
    let dir = tempfile::tempdir().unwrap();
    let outputs = Outputs::new(dir.path().join("outputs"), Limits::default()).unwrap();
    let output = outputs.open(run(3), 1);
    // Every line of 16 bytes contains its position.
    let mut block = Vec::with_capacity(1 << 16);
    for begin in (0..FLOOD).step_by(1 << 16) {
        block.clear();
        for line in 0..4096 {
            block.extend(format!("{:015}\n", begin + line * 16).into_bytes());
        }
        output.write(Stream::Stdout, &block);
    }
    output.finish().await.unwrap();
    let slice = all(&outputs, run(3), None);
    assert_eq!((slice.total, slice.next, slice.is_final), (FLOOD, FLOOD, true));
    let kept = FLOOD - slice.omitted;
    assert!((10 << 20..=12 << 20).contains(&kept), "{kept} bytes kept");
    let note = format!("\n[... {} bytes left out ...]\n", slice.omitted);
    assert_eq!(slice.bytes.len() as u64, kept + note.len() as u64);
    let head = &slice.bytes[..5 << 20];
    assert!(head.ends_with(format!("{:015}\n", (5 << 20) - 16).as_bytes()));
    assert!(slice.bytes[5 << 20..].starts_with(note.as_bytes()));
    assert!(slice.bytes.ends_with(format!("{:015}\n", FLOOD - 16).as_bytes()));
    // The tail has no hole, and a reader in the middle of the gap gets a note about the rest of it.
    let tail = &slice.bytes[(5 << 20) + note.len()..];
    let first: u64 = std::str::from_utf8(&tail[..15]).unwrap().parse().unwrap();
    assert_eq!(first, FLOOD - tail.len() as u64);
    let middle = outputs.read(run(3), 1, first - 100, 20, None).unwrap();
    assert!(middle.bytes.starts_with(b"\n[... 100 bytes left out ...]\n"));
    let size: u64 = files(dir.path()).iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(size < 12 << 20, "{size} bytes on disk");
}

#[tokio::test]
async fn it_is_read_and_followed_while_it_grows() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(dir.path(), 1 << 20, 1 << 20);
    let output = outputs.open(run(4), 1);
    let mut here = outputs.follow(run(4), 1, 0);
    // Another process has only the files.
    let others = Outputs::new(dir.path().join("outputs"), Limits::default()).unwrap();
    for line in ["first\n", "second\n"] {
        let before = all(&outputs, run(4), None);
        assert!(!before.is_final);
        let mut there = others.follow(run(4), 1, before.total);
        output.write(Stream::Stdout, line.as_bytes());
        timeout(BOUND, here.changed()).await.unwrap();
        let slice = outputs.read(run(4), 1, before.total, 100, None).unwrap();
        assert_eq!((slice.bytes.as_slice(), slice.is_final), (line.as_bytes(), false));
        if before.total > 0 {
            timeout(BOUND, there.changed()).await.unwrap();
        }
        assert_eq!(others.read(run(4), 1, before.total, 100, None).unwrap().bytes, slice.bytes);
    }
    output.finish().await.unwrap();
    timeout(BOUND, here.changed()).await.unwrap();
    assert!(all(&outputs, run(4), None).is_final);
    timeout(BOUND, others.follow(run(4), 1, 13).changed()).await.unwrap();
}

#[tokio::test]
async fn a_torn_or_damaged_end_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(dir.path(), 1 << 20, 1 << 20);
    let output = outputs.open(run(5), 1);
    let mut follower = outputs.follow(run(5), 1, 0);
    output.write(Stream::Stdout, b"first frame");
    timeout(BOUND, follower.changed()).await.unwrap();
    let [path] = files(dir.path()).try_into().unwrap();
    let first = fs::read(&path).unwrap();
    output.write(Stream::Stdout, b", second frame");
    timeout(BOUND, follower.changed()).await.unwrap();
    let both = fs::read(&path).unwrap();
    // Whatever length the last write has reached, what stood before it is readable.
    for length in first.len()..both.len() {
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
        let slice = all(&outputs, run(5), None);
        assert_eq!(
            (slice.bytes.as_slice(), slice.is_final),
            (&b"first frame"[..], false),
            "{length}"
        );
        let rest = &both[length..];
        OpenOptions::new().append(true).open(&path).unwrap().write_all(rest).unwrap();
    }
    assert_eq!(all(&outputs, run(5), None).bytes, b"first frame, second frame");
    // No damage makes a reader panic or ask for much.
    for at in 0..both.len() {
        let mut damaged = both.clone();
        damaged[at] ^= 0xff;
        fs::write(&path, damaged).unwrap();
        let _ = outputs.read(run(5), 1, 0, usize::MAX, None).unwrap();
    }
}

/// The state after a crash while the files of a run were removed.
#[tokio::test]
async fn files_of_a_deletion_that_a_crash_interrupted_are_removed_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let first = outputs(dir.path(), 1 << 10, 1 << 10);
    let output = first.open(run(12), 1);
    output.write(Stream::Stdout, &[b'x'; 100 << 10]);
    output.finish().await.unwrap();
    drop((output, first));
    let folder = files(dir.path())[0].parent().unwrap().to_owned();
    let deleted = dir.path().join("outputs/deleted");
    fs::create_dir(&deleted).unwrap();
    fs::rename(&folder, deleted.join(folder.file_name().unwrap())).unwrap();
    let second = outputs(dir.path(), 1 << 10, 1 << 10);
    assert!(files(dir.path()).is_empty());
    assert_eq!(all(&second, run(12), None).total, 0);
}

#[tokio::test]
async fn attempts_are_listed_and_deleted_with_their_run() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(dir.path(), 64, 64);
    for attempt in [2, 11, 1] {
        let output = outputs.open(run(6), attempt);
        output.write(Stream::Stdout, &[b'x'; 1000]);
        output.finish().await.unwrap();
    }
    let silent = outputs.open(run(6), 12);
    silent.finish().await.unwrap();
    assert_eq!(outputs.attempts(run(6)).unwrap(), [1, 2, 11]);
    assert!(outputs.read(run(6), 12, 0, 10, None).unwrap().is_final, "nothing is all of it");
    // An attempt that begins again replaces its old files, tail and all.
    let output = outputs.open(run(6), 2);
    output.write(Stream::Stdout, b"again");
    output.finish().await.unwrap();
    assert_eq!(outputs.read(run(6), 2, 0, 99, None).unwrap().bytes, b"again");
    assert_eq!(outputs.read(run(6), 1, 0, 10, None).unwrap().total, 1000);
    outputs.delete(run(6)).unwrap();
    outputs.delete(run(6)).unwrap();
    assert_eq!(outputs.attempts(run(6)).unwrap(), [0; 0]);
    assert!(files(dir.path()).is_empty());
}

#[tokio::test]
async fn only_the_owner_can_read_them() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(dir.path(), 10, 10);
    let output = outputs.open(run(7), 1);
    output.write(Stream::Stdout, &[b'x'; 100]);
    output.finish().await.unwrap();
    let found = files(dir.path());
    assert_eq!(found.len(), 2, "{found:?}");
    for path in found {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let above = path.ancestors().skip(1).take(3);
        for folder in above {
            assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_is_an_error_and_not_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(dir.path(), 1 << 20, 1 << 20);
    // A file stands where the folder of the run should be.
    fs::write(dir.path().join("outputs/08"), "in the way").unwrap();
    let output = outputs.open(run(8), 1);
    output.write(Stream::Stdout, b"lost");
    let problem = output.finish().await.unwrap_err();
    assert!(!problem.is_empty());
    let output = outputs.open(run(9), 1);
    output.write(Stream::Stdout, b"kept");
    output.finish().await.unwrap();
    assert_eq!(all(&outputs, run(9), None).bytes, b"kept");
}

#[tokio::test]
async fn dropping_it_ends_it_and_the_default_goes_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(dir.path(), 1 << 20, 1 << 20);
    let output = outputs.open(run(10), 1);
    output.write(Stream::Stdout, b"x");
    let mut follower = outputs.follow(run(10), 1, 1);
    drop(output);
    timeout(BOUND, follower.changed()).await.unwrap();
    assert!(all(&outputs, run(10), None).is_final);
    let nowhere = Output::default();
    nowhere.write(Stream::Stdout, b"x");
    nowhere.finish().await.unwrap();
    assert!(nowhere.is_empty());
}

#[tokio::test]
async fn only_what_is_idle_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(dir.path(), 1 << 20, 1 << 20);
    let part = 0x2a;
    // The last byte of an id is the part that it is in.
    let [first, second, third] = [1, 2, 3].map(|n| run(n << 8 | u128::from(part)));
    for id in [second, first, third, run(1)] {
        let output = outputs.open(id, 1);
        output.write(Stream::Stdout, b"x");
        output.finish().await.unwrap();
    }
    let writing = outputs.open(second, 2);
    fs::create_dir(dir.path().join("outputs/2a/not-a-run")).unwrap();
    fs::create_dir(dir.path().join("outputs/2a").join(run(7).to_string())).unwrap();

    let (long_ago, later) = (jiff::Timestamp::UNIX_EPOCH, jiff::Timestamp::MAX);
    let idle = |after, before, max| outputs.idle(part, after, before, max).unwrap();
    assert_eq!(idle(None, long_ago, 9), []);
    assert_eq!(idle(None, later, 9), [first, third]);
    assert_eq!(idle(None, later, 1), [first]);
    assert_eq!(idle(Some(first), later, 9), [third]);
    assert_eq!(outputs.idle(0xff, None, later, 9).unwrap(), []);

    assert!(!outputs.delete_idle(first, long_ago).unwrap());
    assert!(!outputs.delete_idle(second, later).unwrap());
    assert!(outputs.delete_idle(first, later).unwrap());
    assert!(!outputs.delete_idle(first, later).unwrap());
    writing.finish().await.unwrap();
    assert!(outputs.delete_idle(second, later).unwrap());
    assert_eq!(idle(None, later, 9), [third]);
    assert_eq!(all(&outputs, run(1), None).bytes, b"x");
}
