//! The executors against real things that misbehave.

mod http;
