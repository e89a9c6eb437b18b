//! The shapes of DAGs and sharded jobs that are measured.

use domain::dag::{Dag, ForEach, Step};
use domain::job::{Definition, Overlap};
use domain::partition::{Parameters, Rows};
use serde_json::json;

/// A job whose runs have many child runs that do nothing.
#[derive(Clone, Copy)]
pub enum Shape {
    /// Steps one after the other.
    Chain(u32),
    /// One step, so many after it, and one after them.
    Fan(u32),
    /// A list of so many items.
    Items(u32),
    /// A number of steps, one at a time, and one after all of them.
    Join(u32),
    /// A number of steps, one at a time.
    Apart(u32),
    /// A run with a part for each of so many rows. They end one at a time, because one is executed
    /// at a time.
    Parts(u32),
}

impl Shape {
    /// How many runs the executor sees for each run of the job.
    pub fn runs(self) -> u32 {
        match self {
            Shape::Chain(steps) | Shape::Apart(steps) => steps,
            Shape::Fan(width) => width + 2,
            Shape::Items(items) => items + 1,
            Shape::Join(parents) => parents + 1,
            // The question for the rows is one.
            Shape::Parts(parts) => parts + 1,
        }
    }

    /// The items that the first step answers, or the rows.
    pub fn list(self) -> String {
        let rows: Vec<_> = match self {
            Shape::Fan(items) | Shape::Items(items) => (0..items).map(|n| json!(n)).collect(),
            Shape::Parts(parts) => (0..parts).map(|n| json!({ "n": n })).collect(),
            _ => Vec::new(),
        };
        serde_json::Value::Array(rows).to_string()
    }

    /// How many child runs are executed at a time, if that matters.
    pub fn slots(self) -> Option<u32> {
        matches!(self, Shape::Parts(_)).then_some(1)
    }

    /// The definition of the job.
    pub fn definition(self) -> Definition {
        let own = Definition { overlap: Overlap::Allow, ..Definition::default() };
        if let Shape::Parts(_) = self {
            let from = Some(Rows { sql: "SELECT n".into(), database: Some("rows".into()) });
            let parameters = Parameters { from, ..Parameters::default() };
            return Definition { parameters, ..own };
        }
        Definition { dag: Some(Box::new(self.dag())), ..own }
    }

    fn dag(self) -> Dag {
        let step = |name: String, after: Vec<String>| Step { name, after, ..Step::default() };
        let name = |n: u32| format!("s{n}");
        let one_by_one = Dag { max_parallel: Some(1), ..Dag::default() };
        match self {
            Shape::Chain(steps) => {
                let before = |n: u32| n.checked_sub(1).map(name).into_iter().collect();
                let steps = (0..steps).map(|n| step(name(n), before(n))).collect();
                Dag { steps, ..Dag::default() }
            }
            // At most 10,000 steps: those in between are items.
            Shape::Fan(items) | Shape::Items(items) => {
                let mut fan = step("fan".into(), vec!["first".into()]);
                fan.for_each = Some(ForEach {
                    list: Some("steps.first.result".into()),
                    max_items: Some(items),
                    ..ForEach::default()
                });
                let mut first = step("first".into(), Vec::new());
                first.result_bytes = Some(1 << 20);
                let mut steps = vec![first, fan];
                if let Shape::Fan(_) = self {
                    steps.push(step("last".into(), vec!["fan".into()]));
                }
                Dag { steps, ..Dag::default() }
            }
            Shape::Join(parents) => {
                let mut steps: Vec<Step> =
                    (0..parents).map(|n| step(name(n), Vec::new())).collect();
                steps.push(step("last".into(), (0..parents).map(name).collect()));
                Dag { steps, ..one_by_one }
            }
            Shape::Apart(steps) | Shape::Parts(steps) => {
                let steps = (0..steps).map(|n| step(name(n), Vec::new())).collect();
                Dag { steps, ..one_by_one }
            }
        }
    }
}

/// A DAG of so many steps, each but the first after the two before it.
pub fn ladder(steps: u32) -> Dag {
    let before = |n: u32| (n.saturating_sub(2)..n).map(|n| format!("s{n}")).collect();
    let step = |n: u32| Step { name: format!("s{n}"), after: before(n), ..Step::default() };
    Dag { steps: (0..steps).map(step).collect(), ..Dag::default() }
}
