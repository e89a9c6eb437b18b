//! Object storage: archives by their digest, in a folder or with a cloud provider.
//!
//! Nothing here knows what an archive is for. An object is written once and never changed, because
//! its name is the digest of its content: two servers that write the same object at the same time
//! write the same bytes. Whether an object is needed is for the rows of the store to say.

mod address;

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use domain::artifact::ArtifactDigest;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use tokio::io::AsyncReadExt;

pub use address::AddressError;

/// An object that is not larger is written with one request.
const PART_BYTES: usize = 8 << 20;

/// How many parts of an object are under way at a time.
const PARTS_AT_ONCE: usize = 4;

/// An object that was written so lately is not written again. Shorter than what the collector of
/// objects waits.
const YOUNG_SECONDS: i64 = 12 * 3_600;

/// The folder of objects by SHA-256.
const FOLDER: &str = "sha256";

/// The folder of archived outputs, which have names.
const NAMED_FOLDER: &str = "outputs";

/// How the names of backups begin.
const BACKUP_PREFIX: &str = "punctual-";

/// Why an object was not read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// There is no such object.
    #[error("object sha256:{0} does not exist")]
    Absent(ArtifactDigest),
    /// The object has another size or digest than it should have.
    #[error("object sha256:{0} is damaged; push its content again")]
    Damaged(ArtifactDigest),
    /// The storage does not answer, or refuses.
    #[error("object storage is unavailable: {0}")]
    Unavailable(String),
}

/// Object storage.
#[derive(Clone, Debug)]
pub struct BlobStore {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The folder, if it is one of this machine.
    folder: Option<PathBuf>,
}

/// An object that is being read.
pub struct BlobReader {
    /// Its size.
    pub bytes: u64,
    /// The digest that it should have.
    pub digest: ArtifactDigest,
    chunks: BoxStream<'static, object_store::Result<Bytes>>,
}

impl BlobReader {
    /// The next bytes; none at the end. The receiver compares the digest.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        let chunk = self.chunks.next().await.transpose();
        chunk.map_err(|error| failed(self.digest, &error))
    }
}

impl BlobStore {
    /// Storage in a folder of this machine, which is made if need be. What is written is on disk
    /// when that is reported.
    pub fn in_folder(folder: &FilePath) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let store = object_store::local::LocalFileSystem::new_with_prefix(folder)?;
        let (store, prefix) = (Arc::new(store.with_fsync(true)), Path::default());
        Ok(BlobStore { store, prefix, folder: Some(folder.to_owned()) })
    }

    /// Storage at an address: `/path/to/folder`, `s3://bucket/prefix?region=…&endpoint=…`,
    /// `gs://bucket/prefix` or `az://container/prefix`. The credentials are `KEY_ID:SECRET`, the JSON
    /// of a service account, or `ACCOUNT:KEY`; the rights of the machine if they are empty.
    pub fn at(address: &str, credentials: &str) -> Result<Self, AddressError> {
        if let Some(path) = address.strip_prefix("file://").or(Some(address))
            && path.starts_with('/')
        {
            return BlobStore::in_folder(FilePath::new(path))
                .map_err(|error| AddressError(format!("{path}: {error}")));
        }
        let (store, prefix) = address::open(address, credentials)?;
        Ok(BlobStore { store, prefix, folder: None })
    }

    /// Whether the folder is there. One that has vanished is most often a disk that is not mounted:
    /// its objects are not lost, and a new folder in its place would hide what is written to it.
    fn check_folder(&self) -> Result<(), BlobError> {
        match &self.folder {
            Some(folder) if !folder.is_dir() => {
                Err(BlobError::Unavailable("its folder does not exist".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Why an object was not read.
    fn not_read(&self, digest: ArtifactDigest, error: &object_store::Error) -> BlobError {
        self.check_folder().err().unwrap_or_else(|| failed(digest, error))
    }

    fn path(&self, digest: ArtifactDigest) -> Path {
        let name = digest.to_string();
        self.prefix.clone().join(FOLDER).join(&name[..2]).join(name)
    }

    /// Writes the content of a file, unless that was done lately. An old object is written again:
    /// one that no row names may be deleted at any moment, and a young one is not. `now` is in seconds
    /// since the epoch.
    pub async fn put_file(
        &self,
        digest: ArtifactDigest,
        file: &FilePath,
        now: i64,
    ) -> Result<(), BlobError> {
        let unreadable = |error: io::Error| unreadable(file, &error);
        let mut from = tokio::fs::File::open(file).await.map_err(unreadable)?;
        let bytes = from.metadata().await.map_err(unreadable)?.len();
        self.check_folder()?;
        let failed = |error: object_store::Error| failed(digest, &error);
        let path = self.path(digest);
        match self.store.head(&path).await {
            Ok(found)
                if found.size == bytes && now - found.last_modified.timestamp() < YOUNG_SECONDS =>
            {
                return Ok(());
            }
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
        self.upload(&path, &mut from, file).await.map_err(|error| match error {
            UploadError::File(error) => error,
            UploadError::Storage(error) => failed(error),
        })
    }

    /// Writes an object from a file, with one request or in parts.
    async fn upload(
        &self,
        path: &Path,
        from: &mut tokio::fs::File,
        file: &FilePath,
    ) -> Result<(), UploadError> {
        let failed = UploadError::Storage;
        let unreadable = |error: io::Error| UploadError::File(unreadable(file, &error));
        let bytes = from.metadata().await.map_err(unreadable)?.len();
        if bytes <= PART_BYTES as u64 {
            let mut content = Vec::with_capacity(bytes as usize);
            from.read_to_end(&mut content).await.map_err(unreadable)?;
            self.store.put(path, PutPayload::from(content)).await.map_err(failed)?;
            return Ok(());
        }
        let upload = self.store.put_multipart(path).await.map_err(failed)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let mut buffer = vec![0; 256 << 10];
        loop {
            let read = match from.read(&mut buffer).await {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) => {
                    // The upload has failed already.
                    let _ = upload.abort().await;
                    return Err(unreadable(error));
                }
            };
            if let Err(error) = upload.wait_for_capacity(PARTS_AT_ONCE).await {
                let _ = upload.abort().await;
                return Err(failed(error));
            }
            upload.write(&buffer[..read]);
        }
        upload.finish().await.map_err(failed).map(drop)
    }

    /// The size of an object; none if it is not there.
    pub async fn size(&self, digest: ArtifactDigest) -> Result<Option<u64>, BlobError> {
        match self.store.head(&self.path(digest)).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => self.check_folder().map(|()| None),
            Err(error) => Err(failed(digest, &error)),
        }
    }

    /// Begins to read an object.
    pub async fn open(&self, digest: ArtifactDigest) -> Result<BlobReader, BlobError> {
        let found = self.store.get(&self.path(digest)).await;
        let found = found.map_err(|error| self.not_read(digest, &error))?;
        Ok(BlobReader { bytes: found.meta.size, digest, chunks: found.into_stream() })
    }

    /// Deletes an object, if it is there.
    pub async fn delete(&self, digest: ArtifactDigest) -> Result<(), BlobError> {
        match self.store.delete(&self.path(digest)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(digest, &error)),
        }
    }

    /// Deletes an object that was written before this time, in seconds since the epoch. Whether it
    /// has.
    pub async fn delete_if_older(
        &self,
        digest: ArtifactDigest,
        second: i64,
    ) -> Result<bool, BlobError> {
        match self.store.head(&self.path(digest)).await {
            Ok(found) if found.last_modified.timestamp() < second => {
                self.delete(digest).await.map(|()| true)
            }
            Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(failed(digest, &error)),
        }
    }

    /// The path of an object with a name, which may have folders.
    fn named_path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Begins to read an object by its name. The digest is for the receiver to compare.
    pub async fn open_named(
        &self,
        name: &str,
        digest: ArtifactDigest,
    ) -> Result<BlobReader, BlobError> {
        let found = self.store.get(&self.named_path(name)).await;
        let found = found.map_err(|error| self.not_read(digest, &error))?;
        Ok(BlobReader { bytes: found.meta.size, digest, chunks: found.into_stream() })
    }

    /// The names of the objects in a folder that were written before this time, in seconds since the
    /// epoch, without the folder.
    pub async fn names_before(&self, folder: &str, second: i64) -> Result<Vec<String>, BlobError> {
        self.check_folder()?;
        let folder = self.named_path(folder);
        let mut objects = self.store.list(Some(&folder));
        let mut found = Vec::new();
        while let Some(object) = objects.next().await {
            let object = object.map_err(|error| BlobError::Unavailable(text_of(&error)))?;
            if object.last_modified.timestamp() < second {
                found.extend(object.location.filename().map(str::to_owned));
            }
        }
        Ok(found)
    }

    /// The first object of a folder whose name begins with this, with its size.
    pub async fn find_named(
        &self,
        folder: &str,
        begin: &str,
    ) -> Result<Option<(String, u64)>, BlobError> {
        self.check_folder()?;
        let folder = self.named_path(folder);
        let offset = folder.clone().join(begin);
        let mut objects = self.store.list_with_offset(Some(&folder), &offset);
        // A folder of this machine is not listed in order.
        while let Some(object) = objects.next().await {
            let object = object.map_err(|error| BlobError::Unavailable(text_of(&error)))?;
            match object.location.filename() {
                Some(name) if name.starts_with(begin) => {
                    return Ok(Some((name.to_owned(), object.size)));
                }
                _ if self.folder.is_none() => return Ok(None),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Writes a file under a name, beside the objects that are named by digests. The name may have
    /// folders.
    pub async fn put_named(&self, name: &str, file: &FilePath) -> Result<(), BlobError> {
        self.check_folder()?;
        let opened = tokio::fs::File::open(file).await;
        let mut from = opened.map_err(|error| unreadable(file, &error))?;
        let path = self.named_path(name);
        self.upload(&path, &mut from, file).await.map_err(|error| match error {
            UploadError::File(error) => error,
            UploadError::Storage(error) => BlobError::Unavailable(text_of(&error)),
        })
    }

    /// The names of the objects that were written under names of their own.
    pub async fn names(&self) -> Result<Vec<String>, BlobError> {
        self.check_folder()?;
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let listed = self.store.list_with_delimiter(prefix).await;
        let listed = listed.map_err(|error| BlobError::Unavailable(text_of(&error)))?;
        let names = listed.objects.iter().filter_map(|object| object.location.filename());
        Ok(names.map(str::to_owned).collect())
    }

    /// Deletes an object by its name, if it is there.
    pub async fn delete_named(&self, name: &str) -> Result<(), BlobError> {
        match self.store.delete(&self.named_path(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(BlobError::Unavailable(text_of(&error))),
        }
    }

    /// Deletes what writes left behind whose server was killed before this time: files of the folder
    /// whose names end with a number sign and a number. In the folder itself, which may have other
    /// files, those of backups only.
    pub fn delete_leftovers(&self, before: SystemTime) {
        let Some(folder) = &self.folder else { return };
        let entries = |folder: &FilePath| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let parents = [FOLDER, NAMED_FOLDER].map(|name| folder.join(name));
        let subs = parents.iter().flat_map(|parent| entries(parent));
        let own = entries(folder)
            .filter(|file| file.file_name().to_string_lossy().starts_with(BACKUP_PREFIX));
        for file in subs.flat_map(|sub| entries(&sub.path())).chain(own) {
            let written = file.metadata().and_then(|it| it.modified());
            if is_part(&file.file_name().to_string_lossy())
                && file.file_type().is_ok_and(|kind| kind.is_file())
                && written.is_ok_and(|written| written < before)
            {
                // It is met again at the next round.
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// The objects that were written before this time, in seconds since the epoch. What is not named
    /// like an object is none.
    pub async fn written_before(&self, second: i64) -> Result<Vec<ArtifactDigest>, BlobError> {
        self.check_folder()?;
        let folder = self.prefix.clone().join(FOLDER);
        let mut objects = self.store.list(Some(&folder));
        let mut found = Vec::new();
        while let Some(object) = objects.next().await {
            let object = object.map_err(|error| BlobError::Unavailable(text_of(&error)))?;
            let digest: Option<ArtifactDigest> =
                object.location.filename().and_then(|name| name.parse().ok());
            found.extend(digest.filter(|_| object.last_modified.timestamp() < second));
        }
        Ok(found)
    }
}

/// Whether a file has the name of a part: that of an object, a number sign and a number.
fn is_part(name: &str) -> bool {
    let number = name.rsplit_once('#').map_or("", |(_, number)| number);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Why a file was not written to the storage.
enum UploadError {
    File(BlobError),
    Storage(object_store::Error),
}

fn unreadable(file: &FilePath, error: &io::Error) -> BlobError {
    BlobError::Unavailable(format!("{} cannot be read: {error}", file.display()))
}

fn failed(digest: ArtifactDigest, error: &object_store::Error) -> BlobError {
    match error {
        object_store::Error::NotFound { .. } => BlobError::Absent(digest),
        error => BlobError::Unavailable(text_of(error)),
    }
}

/// An error with its causes, in one line.
fn text_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
