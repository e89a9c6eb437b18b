//! The vocabulary and the decisions of Punctual, as pure functions and plain values.
//!
//! Nothing in this room reads a clock, draws a random number, looks at the environment or
//! performs IO. What a decision needs to know is handed to it.

pub mod access;
pub mod action;
pub mod alert;
pub mod audit;
pub mod bucket;
pub mod cluster;
pub mod decide;
pub mod facts;
pub mod fairness;
pub mod id;
pub mod job;
pub mod object;
pub mod partition;
pub mod run;
pub mod schedule;
pub mod secret;
pub mod shard;
pub mod slot;
pub mod tally;
pub mod text;
