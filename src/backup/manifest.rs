//! The manifest of a backup: its format, its origin and its files.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The name of the manifest in an archive.
pub const NAME: &str = "manifest.json";

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
    /// Every file but this one.
    pub files: Vec<FileEntry>,
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
