//! Queries and their results, as data.

mod answers;
mod limits;
mod shares;
mod world;
