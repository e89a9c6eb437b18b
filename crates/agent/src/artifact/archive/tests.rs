//! The corpus of attacks, and archives as usual tools make them.

use std::io::Write;

use super::*;

/// A header of an entry, with a path that no builder would write.
fn header(kind: EntryType, path: &[u8], size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.set_cksum();
    header
}

/// A tar archive of entries.
fn tar_of(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, path, content) in entries {
        bytes.extend_from_slice(header(*kind, path.as_bytes(), content.len() as u64).as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn packed(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 3).unwrap()
}

fn answer(archive: &[u8]) -> String {
    match check(archive, archive.len() as u64) {
        Ok(content) => format!("{} entries, {} bytes", content.entries, content.bytes),
        Err(ArchiveError::Invalid(problem)) => problem,
        Err(ArchiveError::Target(error)) => panic!("{error}"),
    }
}

#[test]
fn attacks_are_refused() {
    use EntryType as Kind;
    let file = Kind::Regular;
    let pax = |record: &str| {
        let length = (record.len() + 4).max(12);
        format!("{length} {record}\n").into_bytes()
    };
    for (entries, expected) in [
        (&[(file, "main.py", b"x" as &[u8])][..], "1 entries, 1 bytes"),
        (&[(Kind::Directory, "a/", b""), (file, "a/b", b"xy")], "2 entries, 2 bytes"),
        (&[(file, "a/b/c", b"")], "3 entries, 0 bytes"),
        (&[(Kind::Directory, "./", b""), (file, "./a", b"")], "1 entries, 0 bytes"),
        (&[], "the archive is empty"),
        (&[(Kind::Directory, "./", b"")], "the archive is empty"),
        (&[(file, "../evil", b"")], "contains an empty, too long, . or .. component"),
        (&[(file, "a/../../evil", b"")], "contains an empty, too long, . or .. component"),
        (&[(file, "/etc/passwd", b"")], "is absolute"),
        (&[(file, ".//etc", b"")], "is absolute"),
        (&[(file, "a\\b", b"")], "contains a backslash"),
        (&[(file, "a\nb", b"")], "contains a backslash or a control character"),
        (&[(Kind::Symlink, "link", b"")], "\"link\" is a link"),
        (&[(Kind::Link, "link", b"")], "\"link\" is a link"),
        (&[(Kind::Char, "dev", b"")], "\"dev\" is neither a file nor a folder"),
        (&[(Kind::Block, "dev", b"")], "\"dev\" is neither a file nor a folder"),
        (&[(Kind::Fifo, "pipe", b"")], "\"pipe\" is neither a file nor a folder"),
        (&[(Kind::GNUSparse, "sparse", b"")], "\"sparse\" is neither a file nor a folder"),
        (&[(Kind::GNULongLink, "x", b"target")], "\"x\" is neither a file nor a folder"),
        (&[(file, "a", b""), (file, "a", b"")], "\"a\" is in the archive twice"),
        (&[(file, "a", b""), (file, "a/b", b"")], "\"a\" is a file and a folder"),
        (&[(file, "a/b", b""), (file, "a", b"")], "\"a\" is in the archive twice"),
        (&[(Kind::XHeader, "x", &pax("path=../evil")), (file, "a", b"")], ". or .. component"),
        (&[(Kind::XHeader, "x", &pax("size=99999")), (file, "a", b"")], "sets size"),
        (&[(Kind::XHeader, "x", b"999 path=a\n"), (file, "a", b"")], "is torn"),
        (&[(Kind::XHeader, "x", b"x"), (file, "a", b"")], "is torn"),
        (&[(Kind::XHeader, "x", &[b'1'; 65 << 10]), (file, "a", b"")], "is too long"),
        (&[(Kind::GNULongName, "x", b"/evil\0"), (file, "a", b"")], "is absolute"),
    ] {
        let answer = answer(&packed(&tar_of(entries)));
        assert!(answer.contains(expected), "{answer}: {expected}");
    }
}

#[test]
fn bombs_end_early() {
    let zeros = vec![0; 4 << 20];
    let bomb = answer(&packed(&tar_of(&[(EntryType::Regular, "zeros", &zeros)])));
    assert!(bomb.contains("more than 100 times its size"), "{bomb}");
    // A size that the archive only claims.
    let mut claimed = header(EntryType::Regular, b"huge", u64::from(u32::MAX)).as_bytes().to_vec();
    claimed.resize(2048, 0);
    let claimed = answer(&packed(&claimed));
    assert!(claimed.contains("unpacks to more than 536870912 bytes"), "{claimed}");
    let names: Vec<String> = (0..=ENTRIES_MAX).map(|number| number.to_string()).collect();
    let many: Vec<_> =
        names.iter().map(|name| (EntryType::Regular, name.as_str(), b"" as &[u8])).collect();
    // Uncompressed frames, so that the ratio is not what refuses it.
    let tar = tar_of(&many);
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let noise: Vec<u8> =
        (0..(1_u32 << 20)).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    encoder.write_all(&tar).unwrap();
    encoder.write_all(&noise).unwrap();
    let many = answer(&encoder.finish().unwrap());
    assert!(many.contains("more than 10000 files and folders"), "{many}");
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
    for (name, bytes) in [("plain tar", tar_of(&[])), ("text", b"hello".to_vec())] {
        assert!(answer(&bytes).contains("not a tar archive"), "{name}");
    }
    assert!(answer(&packed(b"hello")).contains("not a tar archive"));
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
