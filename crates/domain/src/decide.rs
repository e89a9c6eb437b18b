//! The decisions: what a schedule makes due, whether a due run starts, what an ended attempt
//! means. Facts in, a verdict out; the store writes it under a guard.

pub mod explain;
pub mod line;
pub mod overview;
pub mod plan;
pub mod settle;
pub mod start;
