//! The interfaces, called in process, over a real engine and a real store.

extern crate punctual_server as server;

/// A test for each function and store.
macro_rules! on_both_stores {
    ($($name:ident)*) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(&super::World::now().await).await;
                }
            )*
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    super::$name(&super::World::of_postgres().await).await;
                }
            )*
        }
    };
}

mod access;
mod agents;
mod artifacts;
mod audited;
mod auth;
mod browser;
mod calendars;
mod checklist;
mod cluster;
mod dags;
mod dashboard;
mod description;
mod executions;
mod explain;
mod golden;
mod hooks;
mod job_fields;
mod jobs;
mod limits;
mod logs;
mod matrix;
mod objects;
mod operate;
mod output_archive;
mod people;
mod policies;
mod problems;
mod queue_walls;
mod queues;
mod records;
mod requested;
mod secrets;
mod shards;
mod shared_answers;
mod sql;
mod strangers;
mod sweeper;
mod sys;
mod tokens;
mod versions;
mod worker_sessions;
mod world;
