//! The command line against a real server: both are the binary.

mod apply;
mod bench;
mod ends;
mod import;
mod life;
mod named;
mod output;
mod pages;
