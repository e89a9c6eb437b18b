//! The agent against the real machine, and the executors against real things that misbehave.

mod http;
mod output;
