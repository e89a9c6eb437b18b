//! Ended attempts without an acknowledged result, on disk: one complete file for each.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use domain::id::NodeId;
use domain::run::Grant;
use domain::slot::SlotKind;
use serde::{Deserialize, Serialize};

use crate::shape::Ended;

/// The results that no server has acknowledged yet.
#[derive(Clone, Debug)]
pub struct Spool {
    folder: PathBuf,
}

/// A result, and the node under which it was produced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The node id of the agent at that time.
    pub node: NodeId,
    /// The ended attempt.
    pub ended: Ended,
    /// The kind of slot that it occupied.
    pub slot: SlotKind,
}

impl Spool {
    /// Opens a folder of results, and creates it if needed.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok(Spool { folder })
    }

    fn path(&self, grant: Grant) -> PathBuf {
        self.folder.join(format!("{}-{}.json", grant.run, grant.fence))
    }

    /// Stores a result. It is on disk when this returns.
    pub fn put(&self, kept: &Kept) -> io::Result<()> {
        let text = serde_json::to_vec(kept).map_err(io::Error::other)?;
        let path = self.path(kept.ended.grant);
        let draft = path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Deletes an acknowledged result.
    pub fn remove(&self, grant: Grant) -> io::Result<()> {
        match fs::remove_file(self.path(grant)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            answer => answer,
        }
    }

    /// All stored results. A file that cannot be read was never complete, and is deleted.
    pub fn all(&self) -> io::Result<Vec<Kept>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            match fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
                Some(kept) if path.extension().is_some_and(|end| end == "json") => all.push(kept),
                _ => fs::remove_file(&path)?,
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::RunId;
    use domain::run::{AttemptResult, ErrorCode};
    use jiff::{SignedDuration, Timestamp};
    use uuid::Uuid;

    #[test]
    fn what_was_kept_is_there_after_a_restart_and_what_was_half_written_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |fence| Kept {
            node: NodeId(Uuid::from_u128(7)),
            ended: Ended {
                grant: Grant { run: RunId(Uuid::from_u128(1)), fence, turn: 2 },
                token: 7,
                attempt: 3,
                started_at: Timestamp::UNIX_EPOCH,
                took: SignedDuration::from_millis(1_500),
                result: AttemptResult::failed(ErrorCode::Exit(3), "it said no"),
            },
            slot: SlotKind::Http,
        };
        let spool = Spool::open(folder.path().join("results")).unwrap();
        for fence in [1, 2, 3] {
            spool.put(&kept(fence)).unwrap();
        }
        spool.put(&kept(2)).unwrap();
        spool.remove(kept(1).ended.grant).unwrap();
        spool.remove(kept(1).ended.grant).unwrap();
        fs::write(folder.path().join("results/half.json"), "{\"node\":").unwrap();
        fs::write(folder.path().join("results/x.new"), serde_json::to_vec(&kept(9)).unwrap())
            .unwrap();

        let mut found = Spool::open(folder.path().join("results")).unwrap().all().unwrap();
        found.sort_by_key(|kept| kept.ended.grant.fence);
        assert_eq!(found, [kept(2), kept(3)]);
        assert_eq!(fs::read_dir(folder.path().join("results")).unwrap().count(), 2);
    }
}
