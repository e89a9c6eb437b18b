//! Short outputs: returned, without files.

use std::path::Path;
use std::time::Duration;

use agent::output::{Limits, Outputs, Stream};
use tokio::time::timeout;

use super::{all, files, run};

const BOUND: Duration = Duration::from_secs(20);

fn keeping_short(dir: &Path) -> Outputs {
    Outputs::keeping_short(dir.join("outputs"), Limits::default()).unwrap()
}

#[tokio::test]
async fn a_short_output_has_no_files_and_is_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = keeping_short(dir.path());
    let output = outputs.open(run(1), 1);
    output.write(Stream::Stdout, b"one\n");
    output.write(Stream::Stderr, b"two\n");
    // It can be read and followed while it grows.
    let mut follower = outputs.follow(run(1), 1, 0);
    timeout(BOUND, follower.changed()).await.unwrap();
    let slice = all(&outputs, run(1), None);
    assert_eq!((slice.bytes.as_slice(), slice.is_final), (&b"one\ntwo\n"[..], false));
    let frames = output.finish().await.unwrap().unwrap();
    assert!(frames.len() < 300, "{} bytes", frames.len());
    assert_eq!(files(dir.path()).len(), 0, "not a file");
    for slice in
        [all(&outputs, run(1), None), Outputs::read_short(&frames, 0, usize::MAX, None).unwrap()]
    {
        assert_eq!((slice.bytes.as_slice(), slice.is_final), (&b"one\ntwo\n"[..], true));
        assert_eq!((slice.total, slice.next), (8, 8));
    }
    let stderr = Outputs::read_short(&frames, 0, usize::MAX, Some(Stream::Stderr)).unwrap();
    assert_eq!(stderr.bytes, b"two\n");
    assert_eq!(Outputs::read_short(&frames, 4, 2, None).unwrap().bytes, b"tw");
    assert_eq!(outputs.attempts(run(1)).unwrap(), [1]);
    outputs.delete(run(1)).unwrap();
    assert_eq!(all(&outputs, run(1), None).total, 0);
}

/// Bytes in which nothing repeats (xorshift).
fn noise(length: usize) -> Vec<u8> {
    let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
    let byte = || {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        (bits >> 24) as u8
    };
    std::iter::repeat_with(byte).take(length).collect()
}

#[tokio::test]
async fn nothing_is_handed_over_of_nothing_and_a_long_output_has_files() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = keeping_short(dir.path());
    assert_eq!(outputs.open(run(1), 1).finish().await.unwrap(), None);
    for (number, text) in [
        // More than is looked at, however well it can be compressed.
        (2, vec![b'x'; 64 << 10]),
        // Less, which cannot be.
        (3, noise(12_000)),
    ] {
        let output = outputs.open(run(number), 1);
        output.write(Stream::Stdout, &text);
        assert_eq!(output.finish().await.unwrap(), Some(Vec::new()), "it is in files");
        assert_eq!(all(&outputs, run(number), None).bytes, text);
    }
    assert_eq!(files(dir.path()).len(), 2);
}

#[tokio::test]
async fn an_output_that_goes_on_for_long_has_files_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = keeping_short(dir.path());
    let output = outputs.open(run(1), 1);
    output.write(Stream::Stdout, b"begun\n");
    let written = async {
        while files(dir.path()).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(BOUND, written).await.expect("a crash would leave it");
    assert_eq!(all(&outputs, run(1), None).bytes, b"begun\n");
    output.write(Stream::Stdout, b"done\n");
    let frames = output.finish().await.unwrap().unwrap();
    assert_eq!(Outputs::read_short(&frames, 0, 99, None).unwrap().bytes, b"begun\ndone\n");
    assert_eq!(files(dir.path()).len(), 0, "they are not needed any more");
}
