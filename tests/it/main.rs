//! The real binary, as its users meet it: what it prints, where it prints it, how it ends.
//!
//! Transcripts are data, in `tests/transcripts`. After a deliberate change of output,
//! `TRYCMD=overwrite cargo test --test it` rewrites them; the diff is then the review.

mod agents;
mod artifacts;
mod binary;
mod campaign;
mod client;
mod cluster;
mod dags;
mod dashboard;
mod deploy;
mod docs;
mod proxy;
mod queues;
mod rest;
mod security;
mod serve;
mod sql;
mod stdin;
mod streams;
mod transcripts;
