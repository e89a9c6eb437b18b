//! The types and the decisions of Punctual, as plain values and pure functions.
//!
//! Nothing in this crate reads a clock, generates random numbers, reads the environment or performs
//! IO. All inputs of a decision are parameters.

pub mod access;
pub mod action;
pub mod alert;
pub mod artifact;
pub mod audit;
pub mod blackout;
pub mod bucket;
pub mod calendar;
pub mod cluster;
pub mod dag;
pub mod decide;
pub mod dependency;
pub mod exact_number;
pub mod expression;
pub mod facts;
pub mod fairness;
pub mod hook;
pub mod id;
pub mod job;
pub mod job_defaults;
pub mod object;
pub mod parameter;
pub mod partition;
pub mod pause;
pub mod pool;
pub mod queue;
pub mod raw_json;
pub mod run;
pub mod schedule;
pub mod secret;
pub mod shard;
pub mod slot;
pub mod tally;
pub mod text;
