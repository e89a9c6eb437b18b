//! Archives that are not what they say.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use agent::backup::BackupParts;
use blobs::BlobStore;

use super::super::archive::{self, Contents};
use super::*;

const NOW: &str = "2026-11-15T08:43:15Z";

/// A data folder with a store, two outputs and keys, and a backup of it.
fn backup(folder: &Path) -> PathBuf {
    let data = folder.join("data");
    fs::create_dir_all(data.join("outputs/ab")).unwrap();
    drop(sqlite::SqliteStore::open(&data.join(STORE), Arc::new(|| NOW.parse().unwrap())).unwrap());
    fs::write(data.join("outputs/ab/1.zst"), "one").unwrap();
    fs::write(data.join("outputs/ab/2.zst"), "two").unwrap();
    fs::write(data.join("master.key"), "secret").unwrap();
    let mut file = Vec::new();
    let artifacts = BlobStore::in_folder(&folder.join("storage")).unwrap();
    let parts = BackupParts { outputs: true, artifacts: false };
    let contents = Contents { data, artifacts };
    let made = archive::write(&contents, parts, NOW.parse().unwrap(), &mut file, &|| true);
    assert_eq!(made.unwrap().files.len(), 3);
    let path = folder.join("backup.tar.zst");
    fs::write(&path, file).unwrap();
    path
}

/// The files of an archive, the manifest included.
fn files(archive: &Path) -> Vec<(String, Vec<u8>)> {
    let mut tar = tar::Archive::new(zstd::Decoder::new(File::open(archive).unwrap()).unwrap());
    let read = |entry: io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        (entry.path().unwrap().to_str().unwrap().to_owned(), bytes)
    };
    tar.entries().unwrap().map(read).collect()
}

/// The archive with other files.
fn changed(archive: &Path, change: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) -> PathBuf {
    let mut files = files(archive);
    change(&mut files);
    let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        // An attacker would write the name like this.
        let name = &mut header.as_old_mut().name;
        name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        tar.append(&header, bytes.as_slice()).unwrap();
    }
    let path = archive.with_file_name("changed.tar.zst");
    let mut file = File::create(&path).unwrap();
    file.write_all(&tar.into_inner().unwrap().finish().unwrap()).unwrap();
    path
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Failed(error) => format!("1 {}", error.message()),
        Failure::Ended(exit, error) => format!("{} {}", exit as u8, error.message()),
        other => panic!("{other:?}"),
    }
}

fn quiet(_: u64) {}

#[test]
fn what_is_not_whole_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let archive = backup(folder.path());
    let data = folder.path().join("new");
    fs::create_dir(&data).unwrap();
    let manifest = |files: &mut Vec<(String, Vec<u8>)>, from: &str, to: &str| {
        let text = String::from_utf8(files.last().unwrap().1.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        files.last_mut().unwrap().1 = text.replace(from, to).into_bytes();
    };
    let version = sqlite::newest_schema_version();
    let schema = format!("\"schema_version\": {version}");
    type Change<'a> = &'a dyn Fn(&mut Vec<(String, Vec<u8>)>);
    let rows: [(Change<'_>, &str); 11] = [
        (&|files| files[1].1 = b"ONE".to_vec(), "damaged: outputs/ab/1.zst: it has 3 bytes and"),
        (
            &|files| drop(files.remove(2)),
            "outputs/ab/2.zst: the manifest names it, and it is missing",
        ),
        (&|files| drop(files.pop()), "manifest.json: it is missing, so the archive was cut off"),
        (
            &|files| files.insert(0, ("outputs/x".into(), b"x".to_vec())),
            "outputs/x: the manifest does not name it",
        ),
        (
            &|files| files[1].0 = "outputs/../../x".into(),
            "outputs/../../x: no backup has such a file",
        ),
        (
            &|files| files[1].0 = format!("artifacts/sha256/aa/{}", "a".repeat(64)),
            "the artifact has another digest",
        ),
        (
            &|files| files[1].0 = "artifacts/sha256/aa/x".into(),
            "artifacts/sha256/aa/x: no backup has such a file",
        ),
        (&|files| files[1].0 = "/etc/x".into(), "x: no backup has such a file"),
        (&|files| files[1].0 = "master.key".into(), "master.key: no backup has such a file"),
        (
            &|files| manifest(files, &schema, "\"schema_version\": 999"),
            "4 the backup has schema version 999, this release knows up to",
        ),
        (&|files| manifest(files, "\"format\": 1", "\"format\": 2"), "has form 2, this release"),
    ];
    for (change, words) in rows {
        let archive = changed(&archive, change);
        for answer in [
            check(&archive, &quiet).err().unwrap(),
            restore(&archive, &data, (NOW.parse().unwrap(), "os:ann"), &quiet).err().unwrap(),
        ] {
            let said = said(answer);
            assert!(said.contains(words), "{said}\n{words}");
        }
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0, "{words}");
    }
    assert!(!folder.path().join("x").exists());
}

/// Wherever an archive is cut or a byte of it is changed, it is refused. A few bits of a compressed
/// block mean nothing: without a change of the content there is no damage.
#[test]
fn no_damage_goes_unseen() {
    let folder = tempfile::tempdir().unwrap();
    let archive = backup(folder.path());
    let good = fs::read(&archive).unwrap();
    let unpacked = zstd::decode_all(&good[..]).unwrap();
    let bad = folder.path().join("bad.tar.zst");
    for n in 0..40 {
        let at = good.len() * n / 40;
        fs::write(&bad, &good[..at]).unwrap();
        assert!(check(&bad, &quiet).is_err(), "cut at {at}");
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        let is_same = zstd::decode_all(&bytes[..]).is_ok_and(|content| content == unpacked);
        fs::write(&bad, bytes).unwrap();
        assert_eq!(check(&bad, &quiet).is_ok(), is_same, "changed at {at}");
    }
    assert_eq!(check(&archive, &quiet).ok().unwrap().manifest.files.len(), 3);
}

#[test]
fn a_restore_needs_an_empty_folder_and_begins_anew_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let archive = backup(folder.path());
    let data = folder.path().join("new");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("notes"), "mine").unwrap();
    let now = (NOW.parse().unwrap(), "os:ann");
    let refused = said(restore(&archive, &data, now, &quiet).err().unwrap());
    assert!(
        refused.starts_with("4 ") && refused.contains("is not empty: there is notes"),
        "{refused}"
    );
    fs::remove_file(data.join("notes")).unwrap();
    // As if killed between two files.
    fs::create_dir_all(data.join(MARK)).unwrap();
    fs::create_dir_all(data.join("outputs/zz")).unwrap();
    fs::write(data.join("main.db"), "half").unwrap();
    fs::write(data.join("master.key"), "secret").unwrap();
    let (checked, revived) = restore(&archive, &data, now, &quiet).ok().unwrap();
    assert_eq!((checked.manifest.files.len(), revived.jobs, revived.running), (3, 0, 0));
    let mut names: Vec<String> = fs::read_dir(&data)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["master.key", "outputs", "punctual.db"]);
    assert_eq!(fs::read(data.join("outputs/ab/2.zst")).unwrap(), b"two");
    assert!(!data.join("outputs/zz").exists());
}
