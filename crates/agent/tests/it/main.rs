//! The agent against the real machine.

mod output;
