//! The doors, called in process, over a real engine and a real store.

mod auth;
mod cluster;
mod description;
mod executions;
mod golden;
mod jobs;
mod limits;
mod logs;
mod objects;
mod problems;
mod secrets;
mod sweeper;
mod world;
