//! Decisions: which runs a schedule creates, whether a due run starts, and how the end of an
//! attempt settles its run. They are pure functions of facts; the store writes their results under
//! a guard.

pub mod explain;
pub mod line;
pub mod plan;
pub mod settle;
pub mod start;
