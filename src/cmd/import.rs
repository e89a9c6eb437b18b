//! `punctual import`.
pub mod crontab;
