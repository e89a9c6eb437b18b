//! Queries and their results, as data.

extern crate punctual_query as query;

mod answers;
mod limits;
mod shares;
mod world;
