//! The manifest of a backup: its format, its origin and its files.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The name of the manifest in an archive.
pub const NAME: &str = "manifest.json";

/// The folder of the archives of artifacts.
pub const ARTIFACTS: &str = "artifacts";

/// The form of archives that this release writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// The manifest of a backup. Later releases may add fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The form of the archive.
    pub format: u32,
    /// When it was made.
    pub made_at: Timestamp,
    /// The release that made it.
    pub version: String,
    /// The schema of `punctual.db`.
    pub schema_version: i64,
    /// Says which key protects the secrets in it, without telling the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master_key: Option<String>,
    /// The artifacts that the jobs in it need, whether it contains them or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactEntry>,
    /// Every file but this one.
    pub files: Vec<FileEntry>,
}

/// A version of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactEntry {
    /// Its name and version, `name@3`.
    pub name: String,
    /// The SHA-256 of its archive, in hex.
    pub sha256: String,
    /// The size of its archive.
    pub bytes: u64,
}

impl Manifest {
    /// The artifacts that the backup needs and does not contain.
    pub fn missing_artifacts(&self) -> Vec<&ArtifactEntry> {
        let has =
            |it: &&ArtifactEntry| !self.files.iter().any(|file| is_object(&file.path, &it.sha256));
        self.artifacts.iter().filter(has).collect()
    }
}

/// Whether this is the path of the archive of an artifact in a backup.
pub fn is_object(path: &str, sha256: &str) -> bool {
    path == object_path(sha256)
}

/// The path of the archive of an artifact, in a backup and in the data folder.
pub fn object_path(sha256: &str) -> String {
    format!("{ARTIFACTS}/sha256/{}/{sha256}", sha256.get(..2).unwrap_or_default())
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its path in the archive and in the data folder.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: String,
}

/// The fingerprint of a key, which reveals nothing about it: keys are 256 random bits.
pub fn fingerprint(key: &str) -> String {
    let digest = Sha256::new().chain_update("punctual master key\n").chain_update(key.trim());
    hex(&digest.finalize())[..16].to_owned()
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
