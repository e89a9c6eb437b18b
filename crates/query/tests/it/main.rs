//! Questions and their answers, as data.

mod answers;
mod limits;
mod shares;
mod world;
