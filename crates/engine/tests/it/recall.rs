//! A node remembers jobs, and a trigger is of the job as it is all the same.

use domain::access::Actor;
use domain::id::JobId;
use domain::job::{Definition, Job};
use domain::run::AttemptResult;
use engine::{Engine, Executor, Started, Stop, Trigger};

use crate::present::{Process, create};

/// Completes everything.
struct Complete;

impl Executor for Complete {
    async fn execute(&self, _: Started, _: Stop) -> AttemptResult {
        AttemptResult::completed()
    }
}

/// A trigger uses a job that was read before, and never one that was changed since: wherever the
/// change was made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_is_of_the_job_as_it_is() {
    let process = Process::new();
    let (a, b) = (process.engine("a", Complete).await, process.engine("b", Complete).await);
    let admin = Actor::admin();
    let trigger = async |engine: &Engine, name: &str| {
        let run = engine.by(&admin).trigger_named(name, Trigger::default()).await;
        run.map(|run| (run.job, run.job_version, run.priority)).map_err(|error| error.to_string())
    };
    let job = create(&a, "job", Definition::default()).await;
    for name in ["job", &job.id.to_string()] {
        for engine in [&a, &b] {
            assert_eq!(trigger(engine, name).await, Ok((job.id, 1, 5)));
        }
    }
    // A change of the definition counts at once on both nodes.
    a.by(&admin)
        .alter_job(job.id, |job| {
            job.definition.priority = 9;
            Ok::<(), engine::EngineError>(())
        })
        .await
        .unwrap();
    assert_eq!(trigger(&b, "job").await, Ok((job.id, 2, 9)));
    assert_eq!(trigger(&a, "job").await, Ok((job.id, 2, 9)));
    // A job that was renamed has its new name only, and another may have the old one.
    rename(&b, &admin, job.id, "renamed").await;
    for engine in [&a, &b] {
        assert_eq!(trigger(engine, "renamed").await, Ok((job.id, 3, 9)));
        assert!(trigger(engine, "job").await.unwrap_err().contains("does not exist"));
    }
    let heir = create(&b, "job", Definition::default()).await;
    for engine in [&a, &b] {
        assert_eq!(trigger(engine, "job").await, Ok((heir.id, 1, 5)));
    }
    // A job that was deleted is gone, by its name and by its id.
    a.by(&admin).delete_job(heir.id, engine::Deletion::default()).await.unwrap();
    for engine in [&b, &a] {
        for name in ["job", &heir.id.to_string()] {
            assert!(trigger(engine, name).await.unwrap_err().contains("does not exist"));
        }
    }
}

async fn rename(engine: &Engine, actor: &Actor, job: JobId, name: &str) {
    let rename = |job: &mut Job| {
        job.name = name.to_owned();
        Ok::<(), engine::EngineError>(())
    };
    engine.by(actor).alter_job(job, rename).await.unwrap();
}
