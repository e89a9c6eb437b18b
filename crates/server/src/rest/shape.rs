//! The bodies of requests and answers, and how they become the domain's values and back.

pub mod channel;
pub mod dag;
pub mod dag_run;
pub mod database;
pub mod diff;
pub mod duration;
pub mod execution;
pub mod job;
pub mod job_defaults;
pub mod job_view;
pub mod mirror;
pub mod parameter;
pub mod partition;
pub mod payload;
pub mod policy;
pub mod queue;
pub mod retention;
pub mod retry;
pub mod schedule;
pub mod task;
