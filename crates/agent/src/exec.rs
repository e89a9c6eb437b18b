//! One module for each kind of action, and their common parts.

pub(crate) mod artifact;
pub(crate) mod backup;
pub(crate) mod external;
mod failure;
pub(crate) mod http;
pub(crate) mod sql;

pub(crate) use failure::Failure;

/// The longest result that a run keeps; a larger one is in its output only.
const RESULT_BYTES_MAX: usize = 64 << 10;
