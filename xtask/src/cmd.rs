//! The commands, one file each. Each has a `run` that returns an error at the first failure.

pub mod bench;
pub mod campaign;
pub mod ci;
pub mod fmt;
pub mod lint;
pub mod test;
