//! The agent against the real machine.

mod external;
mod output;
