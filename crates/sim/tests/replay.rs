//! The log of a simulated world makes the tables of its store again.

extern crate punctual_sim as sim;

use std::sync::{Arc, Mutex};

use sim::{Options, simulate_recorded};
use store::sqlite::{Group, Replica, SqliteOptions};
use testbed::sqlite::{assert_same_rows, rows};

const OPTIONS: SqliteOptions = SqliteOptions { durable: false };

#[test]
fn the_log_of_a_world_makes_its_tables_also_if_they_are_opened_anew_for_every_group() {
    for seed in [3, 11, 42] {
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&log);
        let record = move |group: Group| {
            lines.lock().unwrap().push(serde_json::to_string(&group).unwrap());
        };
        let mut expected = Vec::new();
        let look = |file: &std::path::Path| expected = rows(file);
        let options = Options { steps: 1_200, ..Options::default() };
        let report = simulate_recorded(seed, &options, Some(Box::new(record)), look);
        assert!(report.violation.is_none(), "\n{report}");
        let log = log.lock().unwrap();
        assert!(log.len() > 300, "{} groups are too few to prove anything", log.len());
        let folder = tempfile::tempdir().unwrap();
        let (straight, reopened) = (folder.path().join("a.db"), folder.path().join("b.db"));
        let mut replica = Replica::open(&straight, OPTIONS).unwrap();
        for line in log.iter() {
            let group: Group = serde_json::from_str(line).unwrap();
            replica.apply(&group).unwrap();
            Replica::open(&reopened, OPTIONS).unwrap().apply(&group).unwrap();
        }
        drop(replica);
        assert_same_rows("applied straight", &rows(&straight), &expected);
        assert_same_rows("opened for every group", &rows(&reopened), &expected);
    }
}
