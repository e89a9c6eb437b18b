//! The agent against the real machine, and the executors against real things that misbehave.

extern crate punctual_agent as agent;

mod artifact;
mod external;
mod http;
mod objection;
mod output;
mod sql;
