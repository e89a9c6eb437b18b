//! The author of a change.
//!
//! An operation that changes something for a client has its author as a parameter, and records it
//! in the same transaction.

/// The author of changes that no client requested.
pub const SYSTEM: &str = "punctual";
