//! The command line against a real server: both are the binary.

mod access;
mod apply;
mod bench;
mod ends;
mod first_hour;
mod import;
mod life;
mod named;
mod output;
mod pages;
