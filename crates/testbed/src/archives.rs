//! Archives that attack their reader: for tests of the reader, of the server that receives them and
//! of the agent that unpacks them.

pub use tar::EntryType;

/// An archive, and a part of the message by which it must be refused.
pub struct Attack {
    /// The archive: tar, compressed with zstd.
    pub archive: Vec<u8>,
    /// A part of the message.
    pub problem: &'static str,
}

/// A header of an entry, with a path that no builder would write.
pub fn header(kind: EntryType, path: &[u8], size: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.set_cksum();
    header
}

/// A tar archive of entries.
pub fn tar_of(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, path, content) in entries {
        bytes.extend_from_slice(header(*kind, path.as_bytes(), content.len() as u64).as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Compresses a tar archive.
pub fn packed(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 3).expect("memory can be written")
}

/// A record of an extended header of POSIX, of fewer than 100 bytes.
fn pax(record: &str) -> Vec<u8> {
    let length = record.len() + 4;
    format!("{length} {record}\n").into_bytes()
}

/// Every attack.
pub fn attacks() -> Vec<Attack> {
    let of_entries = entries().into_iter().chain(extended());
    of_entries.chain(bombs()).chain(no_archives()).chain(trailing()).collect()
}

fn refused(entries: &[(EntryType, &str, &[u8])], problem: &'static str) -> Attack {
    Attack { archive: packed(&tar_of(entries)), problem }
}

/// Paths that lead out, and entries that are neither files nor folders.
fn entries() -> Vec<Attack> {
    use EntryType as Kind;
    let file = Kind::Regular;
    let component = "contains an empty, too long, . or .. component";
    [
        (&[][..], "the archive is empty"),
        (&[(Kind::Directory, "./", b"" as &[u8])], "the archive is empty"),
        (&[(file, "../evil", b"")], component),
        (&[(file, "a/../../evil", b"")], component),
        (&[(file, "a/..", b"")], component),
        (&[(Kind::Directory, "..", b"")], component),
        (&[(file, "a//b", b"")], component),
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
        (&[(Kind::Continuous, "x", b"")], "\"x\" is neither a file nor a folder"),
        (&[(file, "a", b""), (file, "a", b"")], "\"a\" is in the archive twice"),
        (&[(file, "a", b""), (file, "a/b", b"")], "\"a\" is a file and a folder"),
        (&[(file, "a/b", b""), (file, "a", b"")], "\"a\" is in the archive twice"),
        (&[(file, "a", b""), (Kind::Directory, "a", b"")], "\"a\" is a file and a folder"),
    ]
    .map(|(entries, problem)| refused(entries, problem))
    .into()
}

/// Headers that say something else about the entry behind them.
fn extended() -> Vec<Attack> {
    use EntryType as Kind;
    let plain = (Kind::Regular, "a", b"" as &[u8]);
    let long = [b'1'; 65 << 10];
    [
        (Kind::XHeader, &pax("path=../evil")[..], ". or .. component"),
        (Kind::XHeader, &pax("path=/evil"), "is absolute"),
        (Kind::XHeader, &pax("size=99999"), "sets size"),
        (Kind::XHeader, &pax("linkpath=/etc/passwd"), "sets linkpath"),
        (Kind::XHeader, &pax("GNU.sparse.major=1"), "sparse"),
        (Kind::XHeader, b"999 path=a\n", "is torn"),
        (Kind::XHeader, b"x", "is torn"),
        (Kind::XHeader, b"0 path=a\n", "is torn"),
        (Kind::XHeader, b"\xff\xfe", "is not UTF-8"),
        (Kind::XHeader, &long, "is too long"),
        (Kind::XGlobalHeader, &long, "is too long"),
        (Kind::GNULongName, b"/evil\0", "is absolute"),
        (Kind::GNULongName, b"../evil\0", ". or .. component"),
        (Kind::GNULongName, &long, "is too long"),
    ]
    .map(|(kind, content, problem)| refused(&[(kind, "x", content), plain], problem))
    .into()
}

/// Archives that unpack to too much.
fn bombs() -> Vec<Attack> {
    let zeros = vec![0; 4 << 20];
    let zeros = refused(&[(EntryType::Regular, "zeros", &zeros)], "more than 100 times its size");
    // A size that the archive only claims.
    let mut claimed = header(EntryType::Regular, b"huge", u64::from(u32::MAX)).as_bytes().to_vec();
    claimed.resize(2048, 0);
    let claimed =
        Attack { archive: packed(&claimed), problem: "unpacks to more than 536870912 bytes" };
    let names: Vec<String> = (0..=10_000).map(|number| number.to_string()).collect();
    let many: Vec<_> =
        names.iter().map(|name| (EntryType::Regular, name.as_str(), b"" as &[u8])).collect();
    let many = refused(&many, "more than 10000 files and folders");
    // Each file is in a folder of its own below many others.
    let deep: Vec<String> = (0..30).map(|n| format!("{n}/{}", "d/".repeat(500) + "f")).collect();
    let deep: Vec<_> = deep
        .iter()
        .flat_map(|path| {
            let path = path.as_bytes();
            [(EntryType::GNULongName, "x", path), (EntryType::Regular, "y", b"" as &[u8])]
        })
        .collect();
    let deep = refused(&deep, "more than 10000 files and folders");
    vec![zeros, claimed, many, deep]
}

/// Bytes that are no archive, or only the beginning of one.
fn no_archives() -> Vec<Attack> {
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let whole = packed(&tar_of(&[(EntryType::Regular, "a", &content)]));
    let torn = whole[..whole.len() / 2].to_vec();
    let mut flipped = header(EntryType::Regular, b"a", 0).as_bytes().to_vec();
    flipped[0] ^= 1;
    flipped.resize(2048, 0);
    let problem = "not a tar archive";
    [b"hello".to_vec(), tar_of(&[]), packed(b"hello"), torn, packed(&flipped)]
        .map(|archive| Attack { archive, problem })
        .into()
}

/// Archives that go on behind their end, so that the same files have any number of digests.
fn trailing() -> Vec<Attack> {
    let whole = tar_of(&[(EntryType::Regular, "a", b"x")]);
    let text = [&whole[..], b"more"].concat();
    let second = [&whole[..], &whole[..]].concat();
    let zeros = [&whole[..], &[0; 11 << 10]].concat();
    let frame = |more: &[u8]| [packed(&whole), more.to_vec()].concat();
    let skippable = [&0x184D_2A50_u32.to_le_bytes()[..], &4_u32.to_le_bytes(), b"more"].concat();
    [
        packed(&text),
        packed(&second),
        packed(&zeros),
        frame(b"garbage"),
        frame(&packed(b"")),
        frame(&packed(&whole)),
        frame(&skippable),
    ]
    .map(|archive| Attack { archive, problem: "it has data behind its end" })
    .into()
}
