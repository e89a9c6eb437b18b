//! The corpus of attacks, and archives as usual tools make them.

use testbed::archives::{Attack, attacks, packed, tar_of};

use super::*;

fn answer(archive: &[u8]) -> String {
    match check(archive, archive.len() as u64) {
        Ok(content) => format!("{} entries, {} bytes", content.entries, content.bytes),
        Err(ArchiveError::Invalid(problem)) => problem,
        Err(ArchiveError::Target(error)) => panic!("{error}"),
    }
}

#[test]
fn attacks_are_refused() {
    for Attack { archive, problem } in attacks() {
        let answer = answer(&archive);
        assert!(answer.contains(problem), "{answer}: {problem}");
    }
}

#[test]
fn plain_archives_are_read() {
    let file = EntryType::Regular;
    for (entries, expected) in [
        (&[(file, "main.py", b"x" as &[u8])][..], "1 entries, 1 bytes"),
        (&[(EntryType::Directory, "a/", b""), (file, "a/b", b"xy")], "2 entries, 2 bytes"),
        (&[(file, "a/b/c", b"")], "3 entries, 0 bytes"),
        (&[(EntryType::Directory, "./", b""), (file, "./a", b"")], "1 entries, 0 bytes"),
    ] {
        assert_eq!(answer(&packed(&tar_of(entries))), expected);
    }
}

#[test]
fn the_padding_of_usual_tools_is_accepted() {
    let mut tar = tar_of(&[(EntryType::Regular, "a", b"x")]);
    tar.resize(10 << 10, 0);
    assert_eq!(answer(&packed(&tar)), "1 entries, 1 bytes");
}

#[test]
fn torn_archives_are_refused() {
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let whole = packed(&tar_of(&[(EntryType::Regular, "a", &content)]));
    assert_eq!(answer(&whole), "1 entries, 400000 bytes");
    for length in [0, 1, 4, whole.len() / 2, whole.len() - 9] {
        let torn = answer(&whole[..length]);
        assert!(torn.contains("not a tar archive") || torn.contains("empty"), "{length}: {torn}");
    }
}

#[test]
fn long_paths_of_usual_tools_are_read() {
    struct Paths(Vec<(String, bool)>);
    impl ArchiveTarget for Paths {
        fn folder(&mut self, path: &str) -> io::Result<()> {
            self.0.push((path.to_owned(), true));
            Ok(())
        }
        fn file(&mut self, path: &str, file: ArchiveFile<'_>) -> io::Result<()> {
            self.0.push((path.to_owned(), file.is_executable));
            io::copy(file.content, &mut io::sink()).map(drop)
        }
    }
    let long = format!("{}/{}", "a".repeat(150), "b".repeat(150));
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_size(2);
    builder.append_data(&mut header, &long, b"xy" as &[u8]).unwrap();
    let archive = packed(&builder.into_inner().unwrap());
    let mut paths = Paths(Vec::new());
    read(&archive[..], archive.len() as u64, &mut paths).unwrap();
    assert_eq!(paths.0, [("a".repeat(150), true), (long, true)]);
}
