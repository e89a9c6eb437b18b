//! The doors, called in process, over a real engine and a real store.

mod access;
mod agents;
mod audited;
mod auth;
mod browser;
mod checklist;
mod cluster;
mod dashboard;
mod description;
mod executions;
mod golden;
mod jobs;
mod limits;
mod logs;
mod matrix;
mod objects;
mod people;
mod problems;
mod secrets;
mod shards;
mod sql;
mod strangers;
mod sweeper;
mod sys;
mod tokens;
mod world;
