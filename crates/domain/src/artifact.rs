//! Artifacts: versioned bundles of code that jobs run.
//!
//! An artifact has a name, and each push of other content makes a version of it, numbered from 1. A
//! version is one archive, known by its digest. A job refers to a version by `name@3`; the digest
//! is looked up once, when the job is defined, and is part of the job from then on.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::TenantId;
use crate::object::check_name;

/// The most files and folders of an archive.
pub const ENTRIES_MAX: u64 = 10_000;

/// The most bytes of an archive when it is unpacked.
pub const UNPACKED_BYTES_MAX: u64 = 512 << 20;

/// How many times larger than the archive its content may be.
pub const RATIO_MAX: u64 = 100;

/// An archive may always unpack to this many bytes: small ones compress well.
pub const RATIO_FREE_BYTES: u64 = 1 << 20;

/// The longest path in an archive, in bytes.
pub const PATH_BYTES_MAX: usize = 1024;

/// The longest entry point, in bytes.
const ENTRYPOINT_BYTES_MAX: usize = 512;

/// The most labels of a version.
const LABELS_MAX: usize = 64;

/// The longest name or value of a label, in bytes.
const LABEL_BYTES_MAX: usize = 256;

/// How long the content of a version that no row names any more is kept.
pub const GRACE: SignedDuration = SignedDuration::from_hours(24);

/// The SHA-256 of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArtifactDigest(pub [u8; 32]);

impl fmt::Display for ArtifactDigest {
    /// 64 hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ArtifactDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{self}")
    }
}

impl FromStr for ArtifactDigest {
    type Err = ArtifactError;

    /// 64 hex digits, with or without `sha256:` before them.
    fn from_str(text: &str) -> Result<Self, ArtifactError> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text);
        let wrong = || ArtifactError(format!("{text:?} is not a digest: 64 hex digits"));
        if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(ArtifactDigest(bytes))
    }
}

impl Serialize for ArtifactDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ArtifactDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What is wrong with a reference, an entry point, a digest or a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArtifactError(pub String);

/// Which version of an artifact is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactReference {
    /// The name of the artifact.
    pub name: String,
    /// The version.
    pub version: VersionReference,
}

/// A version as a reference names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionReference {
    /// `name@3`: this one.
    Number(u32),
    /// `name`: the newest one when the job is defined.
    NewestNow,
    /// `name@latest`: the newest one whenever a run starts.
    Latest,
}

impl FromStr for ArtifactReference {
    type Err = ArtifactError;

    fn from_str(text: &str) -> Result<Self, ArtifactError> {
        let (name, version) = match text.split_once('@') {
            None => (text, VersionReference::NewestNow),
            Some((name, "latest")) => (name, VersionReference::Latest),
            Some((name, number)) => {
                let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
                let number = number.parse().ok().filter(|number| is_number && *number > 0);
                let version = number.map(VersionReference::Number).ok_or_else(|| {
                    ArtifactError(format!(
                        "{text:?} does not name a version: write name@3, name, or name@latest \
                         with FLOATING"
                    ))
                })?;
                (name, version)
            }
        };
        check_name(name).map_err(ArtifactError)?;
        Ok(ArtifactReference { name: name.to_owned(), version })
    }
}

impl fmt::Display for ArtifactReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            VersionReference::Number(version) => write!(f, "{}@{version}", self.name),
            VersionReference::NewestNow => f.write_str(&self.name),
            VersionReference::Latest => write!(f, "{}@latest", self.name),
        }
    }
}

/// What is executed of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entrypoint {
    /// `module:function`: a function of a Python module.
    Python {
        /// The module, with dots.
        module: String,
        /// The function, or a method of a class, with dots.
        function: String,
    },
    /// The path of an executable file in the artifact.
    Executable(String),
}

impl FromStr for Entrypoint {
    type Err = ArtifactError;

    fn from_str(text: &str) -> Result<Self, ArtifactError> {
        let wrong = |problem: &str| {
            Err(ArtifactError(format!(
                "{text:?} {problem}: write module:function for Python, or the path of an \
                 executable file in the artifact"
            )))
        };
        if text.is_empty() || text.len() > ENTRYPOINT_BYTES_MAX {
            return wrong("is not an entry point");
        }
        let Some((module, function)) = text.split_once(':') else {
            return match check_path(text) {
                Ok(()) => Ok(Entrypoint::Executable(text.to_owned())),
                Err(_) => wrong("is not a relative path"),
            };
        };
        let is_identifier = |part: &str| {
            let begins = part.starts_with(|c: char| c.is_alphabetic() || c == '_');
            begins && part.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        let is_dotted = |path: &str| path.split('.').all(is_identifier);
        if !is_dotted(module) || !is_dotted(function) {
            return wrong("is not a module and a function");
        }
        Ok(Entrypoint::Python { module: module.to_owned(), function: function.to_owned() })
    }
}

/// Checks a path in an archive: relative, and nothing in it leads out.
pub fn check_path(path: &str) -> Result<(), ArtifactError> {
    let wrong = |problem: &str| Err(ArtifactError(format!("path {path:?} {problem}")));
    if path.is_empty() || path.len() > PATH_BYTES_MAX {
        return wrong("is empty or too long");
    }
    if path.starts_with('/') {
        return wrong("is absolute");
    }
    if path.contains(|c: char| c == '\0' || c == '\\' || c.is_control()) {
        return wrong("contains a backslash or a control character");
    }
    if path.split('/').any(|part| matches!(part, "" | "." | "..") || part.len() > 255) {
        return wrong("contains an empty, too long, . or .. component");
    }
    Ok(())
}

/// The version that a job runs, looked up when the job was defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedArtifact {
    /// The number of the version.
    pub version: u32,
    /// The SHA-256 of its archive.
    pub digest: ArtifactDigest,
}

/// A version of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactVersion {
    /// The tenant that owns it.
    pub tenant: TenantId,
    /// The name of the artifact.
    pub name: String,
    /// The number of the version, from 1.
    pub version: u32,
    /// The archive.
    pub archive: ArchiveFacts,
    /// What the client that pushed it wants to remember.
    pub labels: BTreeMap<String, String>,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// The user who pushed it.
    pub created_by: String,
    /// When it was deleted. The number is never used again.
    pub deleted_at: Option<Timestamp>,
}

/// What is known about an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveFacts {
    /// Its SHA-256.
    pub digest: ArtifactDigest,
    /// Its size.
    pub bytes: u64,
    /// The size of its files.
    pub unpacked_bytes: u64,
    /// How many files and folders it has.
    pub entries: u64,
}

impl ArtifactVersion {
    /// What a job refers to it by: `name@3`.
    pub fn reference(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// What a job keeps of it.
    pub fn pin(&self) -> PinnedArtifact {
        PinnedArtifact { version: self.version, digest: self.archive.digest }
    }
}

/// Checks the labels of a version.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), ArtifactError> {
    if labels.len() > LABELS_MAX {
        return Err(ArtifactError(format!("there are more than {LABELS_MAX} labels")));
    }
    let is_plain = |text: &str| text.len() <= LABEL_BYTES_MAX && !text.contains(char::is_control);
    match labels.iter().find(|(name, value)| name.is_empty() || !is_plain(name) || !is_plain(value))
    {
        Some((name, _)) => Err(ArtifactError(format!(
            "label {name:?}: names and values have up to {LABEL_BYTES_MAX} bytes and no control \
             characters, and names are not empty"
        ))),
        None => Ok(()),
    }
}

/// Which versions of an artifact are deleted by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArtifactRetention {
    /// So many of the newest versions stay; all if absent.
    pub keep_versions: Option<u32>,
    /// Versions that are younger stay; of any age if absent.
    pub keep_for: Option<SignedDuration>,
}

impl ArtifactRetention {
    /// The versions that have to go, of those of one artifact. A version that a job uses stays, and
    /// so does the newest one.
    pub fn expired(
        &self,
        versions: &[(u32, Timestamp)],
        is_used: impl Fn(u32) -> bool,
        now: Timestamp,
    ) -> Vec<u32> {
        if *self == ArtifactRetention::default() {
            return Vec::new();
        }
        let mut newest_first: Vec<_> = versions.to_vec();
        newest_first.sort_unstable_by_key(|(version, _)| std::cmp::Reverse(*version));
        let keep = self.keep_versions.map_or(1, |keep| keep.max(1)) as usize;
        let is_old = |at: Timestamp| self.keep_for.is_none_or(|age| now.duration_since(at) >= age);
        let old = newest_first.into_iter().skip(keep).filter(|(_, at)| is_old(*at));
        old.map(|(version, _)| version).filter(|version| !is_used(*version)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_name_a_version_or_the_newest() {
        use VersionReference::*;
        let long = format!("{}@1", "n".repeat(101));
        for (text, expected) in [
            ("customer_sync@3", Ok(("customer_sync", Number(3)))),
            ("artifact-123", Ok(("artifact-123", NewestNow))),
            ("a@latest", Ok(("a", Latest))),
            ("a@0", Err(())),
            ("a@+3", Err(())),
            ("a@", Err(())),
            ("a@3@4", Err(())),
            ("a@LATEST", Err(())),
            ("a@99999999999", Err(())),
            ("@3", Err(())),
            ("../a@3", Err(())),
            (&long, Err(())),
        ] {
            let read = text.parse::<ArtifactReference>();
            match expected {
                Ok((name, version)) => {
                    let expected = ArtifactReference { name: name.to_owned(), version };
                    assert_eq!(read, Ok(expected), "{text}");
                    assert_eq!(read.map(|it| it.to_string()), Ok(text.to_owned()));
                }
                Err(()) => assert!(read.is_err(), "{text}"),
            }
        }
    }

    #[test]
    fn entry_points_are_functions_or_paths() {
        let python = |module: &str, function: &str| Entrypoint::Python {
            module: module.to_owned(),
            function: function.to_owned(),
        };
        for (text, expected) in [
            ("main:run", Some(python("main", "run"))),
            ("a.b_c:Class.run", Some(python("a.b_c", "Class.run"))),
            ("bin/sync", Some(Entrypoint::Executable("bin/sync".into()))),
            ("run.sh", Some(Entrypoint::Executable("run.sh".into()))),
            ("", None),
            ("main:", None),
            (":run", None),
            ("main:run:x", None),
            ("main:run; import os", None),
            ("os.system('x'):y", None),
            ("/bin/sh", None),
            ("../sh", None),
            ("bin/../../sh", None),
            ("bin//sh", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }

    #[test]
    fn paths_stay_inside() {
        for path in ["a", "a/b", ".hidden", "a.b/c d", "ü"] {
            assert_eq!(check_path(path), Ok(()));
        }
        let long = "a/".repeat(600) + "a";
        let component = "a".repeat(256);
        for path in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/..", "./a", "a\0b", "a\\b", "a\nb", &long,
            &component,
        ] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn digests_are_hex() {
        let digest = ArtifactDigest(std::array::from_fn(|at| at as u8));
        let text = digest.to_string();
        assert!(text.starts_with("000102") && text.len() == 64);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(format!("sha256:{text}").parse(), Ok(digest));
        assert_eq!(text.to_uppercase().parse(), Ok(digest));
        for wrong in ["", "00", &text[1..], &format!("{text}0"), &text.replace('0', "g")] {
            assert!(wrong.parse::<ArtifactDigest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn retention_deletes_old_versions_that_no_job_uses() {
        let day = |day: i64| Timestamp::from_second(day * 86_400).unwrap();
        let versions: Vec<_> = (1..=5).map(|number| (number, day(i64::from(number)))).collect();
        let keep = |keep_versions, days: Option<i64>| ArtifactRetention {
            keep_versions,
            keep_for: days.map(|days| SignedDuration::from_hours(24 * days)),
        };
        for (retention, used, expected) in [
            (keep(None, None), &[][..], &[][..]),
            (keep(Some(2), None), &[], &[3, 2, 1]),
            (keep(Some(2), None), &[2], &[3, 1]),
            (keep(Some(0), None), &[], &[4, 3, 2, 1]),
            (keep(None, Some(4)), &[], &[2, 1]),
            (keep(None, Some(0)), &[], &[4, 3, 2, 1]),
            (keep(Some(4), Some(4)), &[], &[1]),
            (keep(Some(9), Some(0)), &[], &[]),
        ] {
            let expired = retention.expired(&versions, |it| used.contains(&it), day(6));
            assert_eq!(expired, expected, "{retention:?} {used:?}");
        }
    }

    #[test]
    fn labels_are_short() {
        let one = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(check_labels(&one("commit", "0a1b")), Ok(()));
        assert_eq!(check_labels(&one("empty", "")), Ok(()));
        for labels in [one("", "x"), one("a\n", "x"), one("a", "\u{7}"), one("a", &"x".repeat(257))]
        {
            assert!(check_labels(&labels).is_err(), "{labels:?}");
        }
        let many = (0..65).map(|number| (number.to_string(), String::new())).collect();
        assert!(check_labels(&many).is_err());
    }
}
