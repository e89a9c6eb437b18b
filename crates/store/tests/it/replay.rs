//! The log of a database makes the same tables again.

use std::path::Path;
use std::sync::{Arc, Mutex};

use store::sqlite::{Group, GroupRecorder, Replica, SqliteOptions};
use testbed::sqlite::{assert_same_rows, rows};

const OPTIONS: SqliteOptions = SqliteOptions { durable: false };

/// The groups of a store, serialised.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn recorder(&self) -> GroupRecorder {
        let log = Arc::clone(&self.0);
        Box::new(move |group| log.lock().unwrap().push(serde_json::to_string(&group).unwrap()))
    }

    /// Applies the log to two empty databases: to one straight, to the other opening it anew for
    /// every group. Both must have the rows of the original.
    pub fn assert_makes(&self, original: &Path) {
        let groups: Vec<Group> =
            self.0.lock().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let folder = tempfile::tempdir().unwrap();
        let (straight, reopened) = (folder.path().join("a.db"), folder.path().join("b.db"));
        let mut replica = Replica::open(&straight, OPTIONS).unwrap();
        for group in &groups {
            replica.apply(group).unwrap();
        }
        drop(replica);
        drop(Replica::open(&reopened, OPTIONS).unwrap());
        for group in &groups {
            Replica::open(&reopened, OPTIONS).unwrap().apply(group).unwrap();
        }
        let expected = rows(original);
        assert_same_rows("applied straight", &rows(&straight), &expected);
        assert_same_rows("opened for every group", &rows(&reopened), &expected);
    }
}
