//! Object storage in a folder, and with an S3-compatible server.

extern crate punctual_blobs as blobs;

use std::net::SocketAddr;
use std::path::Path;

use blobs::{BlobError, BlobStore};
use domain::artifact::ArtifactDigest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Before everything that the tests write, so that nothing of it is old.
const NOW: i64 = 0;

/// An S3-compatible server over a folder, on a free port.
async fn serve_s3(root: &Path) -> SocketAddr {
    std::fs::create_dir(root.join("bucket")).unwrap();
    let service = {
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
        builder.set_auth(SimpleAuth::from_single("id", "secret"));
        builder.build()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let serving = Builder::new(TokioExecutor::new());
                let _ = serving.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    address
}

async fn storages() -> Vec<(&'static str, TempDir, BlobStore)> {
    let folder = tempfile::tempdir().unwrap();
    let local = BlobStore::in_folder(&folder.path().join("blobs")).unwrap();
    let root = tempfile::tempdir().unwrap();
    let server = serve_s3(root.path()).await;
    let address = format!("s3://bucket/some/prefix?endpoint=http://{server}");
    let s3 = BlobStore::at(&address, "id:secret").unwrap();
    vec![("folder", folder, local), ("s3", root, s3)]
}

fn digest(content: &[u8]) -> ArtifactDigest {
    ArtifactDigest(Sha256::digest(content).into())
}

async fn read(store: &BlobStore, digest: ArtifactDigest) -> Result<Vec<u8>, BlobError> {
    let mut reader = store.open(digest).await?;
    let mut content = Vec::new();
    while let Some(chunk) = reader.next().await? {
        content.extend_from_slice(&chunk);
    }
    assert_eq!(content.len() as u64, reader.bytes);
    Ok(content)
}

#[tokio::test]
async fn an_object_is_what_was_written_until_it_is_deleted() {
    let files = tempfile::tempdir().unwrap();
    for (name, _dir, store) in storages().await {
        // The largest has several parts.
        for bytes in [0_usize, 1, 8 << 20, (20 << 20) + 7] {
            let content: Vec<u8> = (0..bytes).map(|at| ((at * 31) >> 7) as u8).collect();
            let (digest, file) = (digest(&content), files.path().join(bytes.to_string()));
            std::fs::write(&file, &content).unwrap();
            assert_eq!(store.size(digest).await, Ok(None), "{name}");
            assert_eq!(read(&store, digest).await, Err(BlobError::Absent(digest)), "{name}");
            for _ in 0..2 {
                store.put_file(digest, &file, NOW).await.unwrap();
            }
            assert_eq!(store.size(digest).await, Ok(Some(bytes as u64)), "{name}");
            assert!(read(&store, digest).await.unwrap() == content, "{name} {bytes}");
            assert_eq!(store.written_before(0).await, Ok(vec![]), "{name}");
            assert_eq!(store.written_before(i64::MAX).await, Ok(vec![digest]), "{name}");
            for _ in 0..2 {
                store.delete(digest).await.unwrap();
            }
            assert_eq!(store.written_before(i64::MAX).await, Ok(vec![]), "{name}");
        }
    }
}

#[tokio::test]
async fn an_old_object_is_written_again_and_only_old_ones_are_collected() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("file");
    std::fs::write(&file, "content").unwrap();
    let digest = digest(b"content");
    for (name, _dir, store) in storages().await {
        store.put_file(digest, &file, NOW).await.unwrap();
        assert_eq!(store.delete_if_older(digest, 0).await, Ok(false), "{name}");
        // An object of the right size with other bytes shows whether it was written.
        std::fs::write(&file, "damaged").unwrap();
        store.put_file(digest, &file, NOW).await.unwrap();
        assert_eq!(read(&store, digest).await.unwrap(), b"content", "{name}: it is young");
        store.put_file(digest, &file, i64::MAX).await.unwrap();
        assert_eq!(read(&store, digest).await.unwrap(), b"damaged", "{name}: it was old");
        std::fs::write(&file, "content").unwrap();
        assert_eq!(store.delete_if_older(digest, i64::MAX).await, Ok(true), "{name}");
        assert_eq!(store.delete_if_older(digest, i64::MAX).await, Ok(false), "{name}");
    }
}

#[tokio::test]
async fn files_are_kept_under_their_names_beside_the_objects() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("file");
    // Of several parts.
    std::fs::write(&file, vec![7; (17 << 20) + 1]).unwrap();
    let digest = digest(&std::fs::read(&file).unwrap());
    for (name, dir, store) in storages().await {
        store.put_file(digest, &file, NOW).await.unwrap();
        assert_eq!(store.names().await, Ok(vec![]), "{name}");
        for named in ["b.tar.zst", "a.tar.zst", "a.tar.zst"] {
            store.put_named(named, &file).await.unwrap();
        }
        let mut names = store.names().await.unwrap();
        names.sort();
        assert_eq!(names, ["a.tar.zst", "b.tar.zst"], "{name}");
        let folder = if name == "s3" { "bucket/some/prefix" } else { "blobs" };
        let written = std::fs::metadata(dir.path().join(folder).join("a.tar.zst")).unwrap();
        assert_eq!(written.len(), (17 << 20) + 1, "{name}");
        for _ in 0..2 {
            store.delete_named("a.tar.zst").await.unwrap();
        }
        assert_eq!(store.names().await.unwrap(), ["b.tar.zst"], "{name}");
        assert_eq!(store.written_before(i64::MAX).await, Ok(vec![digest]), "{name}");
    }
}

#[test]
fn leftovers_of_killed_servers_are_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let store = BlobStore::in_folder(dir.path()).unwrap();
    for (folder, name) in [("sha256/ab", "abcd"), ("outputs/ab", "a.1.b"), ("", "punctual-1.tar")] {
        let folder = dir.path().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let part = folder.join(format!("{name}#1"));
        let others = [folder.join(name), folder.join(format!("{name}#a")), dir.path().join("x#1")];
        for file in others.iter().chain([&part]) {
            std::fs::write(file, "x").unwrap();
        }
        let written = std::fs::metadata(&part).unwrap().modified().unwrap();
        store.delete_leftovers(written);
        assert!(part.exists());
        store.delete_leftovers(written + std::time::Duration::from_secs(1));
        assert!(!part.exists(), "{}", part.display());
        assert!(others.iter().all(|other| other.exists()), "{name}");
    }
}

#[tokio::test]
async fn storage_whose_folder_has_vanished_is_unavailable_and_not_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, file) = (dir.path().join("blobs"), dir.path().join("file"));
    std::fs::write(&file, "content").unwrap();
    let (store, digest) = (BlobStore::in_folder(&folder).unwrap(), digest(b"content"));
    std::fs::remove_dir_all(&folder).unwrap();
    let away = BlobError::Unavailable("its folder does not exist".to_owned());
    assert_eq!(store.put_file(digest, &file, NOW).await, Err(away.clone()));
    assert_eq!(store.put_named("a", &file).await, Err(away.clone()));
    assert_eq!(store.size(digest).await, Err(away.clone()));
    assert_eq!(store.open(digest).await.err(), Some(away.clone()));
    assert_eq!(store.open_named("a", digest).await.err(), Some(away.clone()));
    assert_eq!(store.find_named("outputs/ab", "a").await, Err(away.clone()));
    assert_eq!(store.names_before("outputs/ab", 0).await, Err(away.clone()));
    assert_eq!(store.names().await, Err(away.clone()));
    assert_eq!(store.written_before(0).await, Err(away));
    assert!(!folder.exists());
}

#[tokio::test]
async fn storage_that_is_away_is_unavailable_and_names_no_secret() {
    // Nothing listens there: the port was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let address = format!("s3://bucket?endpoint=http://{free}");
    let store = BlobStore::at(&address, "id:my-secret-key").unwrap();
    match store.open(digest(b"")).await.map(|_| ()) {
        Err(BlobError::Unavailable(text)) => assert!(!text.contains("my-secret-key"), "{text}"),
        other => panic!("{other:?}"),
    }
    let (_, root, _) = storages().await.remove(1);
    let server = serve_s3(tempfile::tempdir_in(root.path()).unwrap().path()).await;
    let address = format!("s3://bucket?endpoint=http://{server}");
    let store = BlobStore::at(&address, "id:wrong-secret").unwrap();
    let refused = store.size(digest(b"")).await;
    assert!(matches!(refused, Err(BlobError::Unavailable(_))), "{refused:?}");
}
